"""The ONNX backend test suite against this compiler: `make conformance`, `python -m conformance`.

`cases.py` collects what ships with onnx, `judge.py` says what became of one test, `exclusions.py`
which tests are left out and why, `pool.py` runs them where a crash or a hang costs one test only.
"""
