"""Lessons that run: texts with blocks, held to the compiler, and the graders of their exercises.

    form.py      lesson.yaml and lesson.<language>.md, read with care
    prose.py     Markdown as a tree of plain nodes
    arith.py     the arithmetic of texts; `ui/explorer/lesson/arith.mjs` is the same in JavaScript
    figures.py   runs, listings and claims against the compiler; `make lessons`
    checks.py    an exercise graded by compiling and running

Of the compiler only its public face is used: what a lesson can do, a reader can do.
"""
