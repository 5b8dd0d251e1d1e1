"""The Numba source of loop trees: golden text, and the line map."""

from compiler.codegen.cpu import emit_kernel, kernel_symbol
from compiler.ir.parser import parse_kernel

SOFTMAX = """
kernel @k0 (x: in f32[r,c], y: out f32[r,c], y_row: scratch f32[c]) {  @[n0]
  par i in r {
    acc m: f32 = -inf
    red j in c { m max= load x[i,j] }
    acc z: f32 = 0
    red j in c { let e = exp(load x[i,j] - m); store y_row[j] = e; z += e }
    vec j in c { store y_row[j] = load y_row[j] / z }
    stream j in c { store y[i,j] = load y_row[j] }
  }
}
"""

SOFTMAX_SOURCE = """\
def softmax(params, worker, lo, hi):
    r = extent(params, 0)
    c = extent(params, 1)
    x = pointer(params[2], f32)
    y = pointer(params[3], f32)
    y_row_own = pointer(params[4] + i64(worker) * params[5], f32)
    wide_y = logical_and(c * r >= u64(4194304), c <= u64(16384))
    for i in range(lo, hi):
        y_row = staging(y_row_own, y, i * c, wide_y)
        m = f32(-inf)
        for j in range(c):
            m = max_reassoc(m, load(x, i * c + j))
        z = f32(0.0)
        for j in range(c):
            e = exp(load(x, i * c + j) - m)
            store(y_row, j, e)
            z = add_reassoc(z, e)
        for j in range(c):
            store(y_row, j, load(y_row, j) / z)
        stream(y, i * c, y_row, c, wide_y)
    stream_end(wide_y)
"""

BATCHED = """
kernel @k0 (x: in i32[b,r,c], w: in f32[c], y: out f32[b,r,c]) {  @[n0]
  par a in b {
    par i in r {
      vec j in c {
        let t = cast(f32, load x[a,i,j] * load x[a,i,j])
        store y[a,i,j] = select(t < 0.5, t, load w[j]) + cast(f32, index[j])
      }
    }
  }
}
"""

BATCHED_SOURCE = """\
def batched(params, worker, lo, hi):
    b = extent(params, 0)
    r = extent(params, 1)
    c = extent(params, 2)
    x = pointer(params[3], i32)
    w = pointer(params[4], f32)
    y = pointer(params[5], f32)
    for flat in range(lo, hi):
        i = flat % r
        rest1 = flat // r
        a = rest1
        for j in range(c):
            x_at = (a * r + i) * c + j
            t = f32(i32(load(x, x_at) * load(x, x_at)))
            store(y, x_at, select(t < f32(0.5), t, load(w, j)) + f32(i64(j)))
"""


def test_softmax() -> None:
    assert emit_kernel(parse_kernel(SOFTMAX), "softmax").text == SOFTMAX_SOURCE


def test_several_parallel_axes_and_integers() -> None:
    assert emit_kernel(parse_kernel(BATCHED), "batched").text == BATCHED_SOURCE


WINDOW = """
kernel @k0 (x: in f32[r,3,8], y: out f32[r,3]) {  @[n0]
  par i in r {
    vec j in 3 {
      let a = load x[i,j,1]
      store y[i,j] = a * load x[i,j,7] + load x[i + 2,j,0]
      if index[j] < index[2] { store y[i,j] = load x[i,j + 1,0] }
    }
  }
}
"""

WINDOW_SOURCE = """\
def window(params, worker, lo, hi):
    r = extent(params, 0)
    x = pointer(params[1], f32)
    y = pointer(params[2], f32)
    for i in range(lo, hi):
        for j in range(u64(3)):
            x_at = (i * u64(3) + j) * u64(8)
            a = load(x, x_at + u64(1))
            store(y, i * u64(3) + j, (a * load(x, x_at + u64(7))) + load(x, x_at + u64(48)))
            if i64(j) < i64(u64(2)):
                store(y, i * u64(3) + j, load(x, x_at + u64(8)))
"""


def test_accesses_that_lie_a_known_distance_apart_count_from_one_position() -> None:
    assert emit_kernel(parse_kernel(WINDOW), "window").text == WINDOW_SOURCE


def test_a_scalar_lies_at_0() -> None:
    text = "kernel @k0 (x: in f32[], y: out f32[]) {  @[n0]\n  store y[] = load x[] * load x[]\n}\n"
    source = emit_kernel(parse_kernel(text), "scalar").text
    assert source.splitlines()[-1].strip() == "store(y, u64(0), load(x, u64(0)) * load(x, u64(0)))"


def test_every_statement_has_a_line() -> None:
    kernel = parse_kernel(SOFTMAX)
    emitted = emit_kernel(kernel, "softmax")
    lines = emitted.text.split("\n")
    at = {m.path: lines[m.line - 1].strip() for m in emitted.lines}
    assert at[0,] == "for i in range(lo, hi):"
    assert at[0, 1, 0] == "m = max_reassoc(m, load(x, i * c + j))"
    assert at[0, 3, 1] == "store(y_row, j, e)"
    assert at[0, 5] == "stream(y, i * c, y_row, c, wide_y)"
    assert all(m.origins == {(0,)} for m in emitted.lines)


def test_the_symbol_is_a_digest_of_what_the_code_depends_on() -> None:
    kernel = parse_kernel(SOFTMAX)
    renamed = parse_kernel(SOFTMAX.replace("@k0", "@k7").replace("let e", "let q").replace(
        "= e;", "= q;").replace("+= e", "+= q"))  # fmt: skip
    other = parse_kernel(SOFTMAX.replace("/ z", "* z"))
    assert kernel_symbol(kernel, "poly") == kernel_symbol(renamed, "poly")
    assert kernel_symbol(kernel, "poly") != kernel_symbol(kernel, "libm")
    assert kernel_symbol(kernel, "poly") != kernel_symbol(other, "poly")
