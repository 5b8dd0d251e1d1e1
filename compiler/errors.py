"""What people see when something is wrong: a message id with parameters, and an English sentence.

    ModelError(message, file, node)      the model cannot be read: names file, node and remedy
    └─ UnsupportedOperator(node, domain) nothing here can compute one of its nodes
    PinError(name)                       a dimension that the model does not have, or a bad size
    PipelineError(message, …)            a pipeline that is not well-formed
    TargetError(target)                  a machine to compile for that does not answer

A message id is a key of the catalogues; with `.remedy` behind it, it is the key of the way out.
The English of both stands here, so that the compiler can speak without a page.

Teaches: an error is data first, a sentence second.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.ir.binding import BindingError as BindingError
from compiler.ir.binding import GuardError as GuardError

Parameter = str | int | float

TEXTS: Mapping[str, tuple[str, str]] = {
    "model.missing": (
        "there is no such file",
        "Check the path, or give the name of a sample.",
    ),
    "model.unreadable": (
        "the file cannot be read: {reason}",
        "Check that it is a file and that you may read it.",
    ),
    "model.empty-file": (
        "the file is empty",
        "Download or export the model again.",
    ),
    "model.other-format": (
        "this is {format}, not an ONNX model",
        "Export the model to ONNX first, for example with torch.onnx.export or tf2onnx.",
    ),
    "model.lfs-pointer": (
        "this is a Git LFS pointer, not the model itself",
        "Fetch the file with `git lfs pull`.",
    ),
    "model.not-onnx": (
        "this is not an ONNX model",
        "Pass a file in the ONNX format (usually .onnx).",
    ),
    "model.truncated": (
        "the file starts as an ONNX model, but is cut off or damaged",
        "Download or export the model again, and compare its size.",
    ),
    "model.no-graph": (
        "the model holds no graph",
        "Export or download it again: the file may be cut off.",
    ),
    "model.empty-graph": (
        "the graph has no outputs, so there is nothing to compute",
        "Declare the outputs of the graph when you export it.",
    ),
    "model.no-opset": (
        "the model does not say which opset it is written in",
        "Add an opset import for domain {domain!r}, or export the model again.",
    ),
    "model.input-type": (
        "input {input!r} is {type}; inputs are tensors of a known element type",
        "Give the input a tensor type, or export the model without it.",
    ),
    "model.duplicate-input": (
        "two inputs are called {value!r}",
        "Rename one of them.",
    ),
    "model.duplicate-output": (
        "two outputs are called {value!r}",
        "List each output once; an Identity node gives a value a second name.",
    ),
    "model.duplicate-weight": (
        "the weight {value!r} is defined twice",
        "Remove one of the two, or rename it.",
    ),
    "model.duplicate-value": (
        "the value {value!r} is defined twice",
        "Give each result of a node a name of its own.",
    ),
    "model.undefined-value": (
        "reads the value {value!r}, which nothing defines",
        "Check the node's inputs: an input or a weight of that name is missing.",
    ),
    "model.undefined-output": (
        "the output {value!r} is defined by no node",
        "Check the graph's outputs: one of them has a wrong name.",
    ),
    "model.cycle": (
        "the nodes {nodes} need each other's results",
        "Break the cycle: a graph runs from inputs to outputs; a Loop node repeats.",
    ),
    "model.inputs": (
        "the node has {count} inputs, and {op} takes {least} to {most}",
        "Mend the inputs of the node; onnx.checker.check_model reports this too.",
    ),
    "model.outputs": (
        "the node has {count} outputs, and {op} has {least} to {most}",
        "Mend the outputs of the node; onnx.checker.check_model reports this too.",
    ),
    "model.unknown-attribute": (
        "the node has an attribute {attribute!r}, which {op} does not know at opset {opset}; "
        "it knows: {known}",
        "Mend the name of the attribute, or leave it out; onnx.checker.check_model reports this "
        "too.",
    ),
    "model.no-results": (
        "the node has no outputs",
        "Remove it, or name its results.",
    ),
    "model.tensor": (
        "the tensor {tensor!r} is damaged: {reason}",
        "Export or download the model again.",
    ),
    "model.external-missing": (
        "the weight {tensor!r} is kept in {location!r}, which is not in the model's folder",
        "Put that file beside the model.",
    ),
    "model.external-outside": (
        "the weight {tensor!r} points to {location!r}, outside the model's folder",
        "Move the data beside the model and save it with a relative location.",
    ),
    "model.external-short": (
        "the weight {tensor!r} needs {wanted} bytes from {location!r}, which holds {found}",
        "Download the data file again, and compare its size.",
    ),
    "model.external-bytes": (
        "the weight {tensor!r} is kept outside the model, in {location!r}",
        "Load the model from its path, or save it with its weights inside.",
    ),
    "model.attribute": (
        "the attribute {attribute!r} is missing or not of the type {wanted}",
        "Give it as the operator's definition says, or export the model again.",
    ),
    "model.node": (
        "the inputs and attributes of the node do not fit each other: {reason}",
        "Compare the node with the definition of its operator, or export the model again.",
    ),
    "model.size": (
        "the result {value!r} would be {type}, which no array can be",
        "Check the sizes that the node is given: they are below 0 or too large.",
    ),
    "model.too-many-nodes": (
        "with its functions inlined the graph has {nodes} nodes, at most {limit} are compiled",
        "Call functions inside functions less often, or compile parts of the model.",
    ),
    "model.shape-mismatch": (
        "dimensions {left} and {right} do not fit",
        "Check the shapes of the node's inputs: {shapes}.",
    ),
    "model.declared-type": (
        "the result {value!r} is {inferred}, but the model declares {declared}",
        "Correct the declared type, or remove it: it follows from the nodes.",
    ),
    "model.unsupported-operator": (
        "nothing here computes {op} of domain {domain!r}: {reason}",
        "Replace the node by standard ONNX operators, or add it as a function of the model.",
    ),
    "pin.unknown": (
        "the model has no dimension called {name!r}; it has: {known}",
        "Pin one of these, or none.",
    ),
    "pin.bounds": (
        "{name} = {value} is out of its range: {low} to {high}, a multiple of {divisor}",
        "Choose a size in this range.",
    ),
    "pin.guard": (
        "with these sizes {left} {relation} {right} does not hold, and a node needs it",
        "Choose sizes for which it holds.",
    ),
    "force.unknown": (
        "no node to force is called {name!r}; known are the values {known}, and #positions",
        "Name the output of a node, or its position as #3.",
    ),
    "fuse.unknown": (
        "{option}={pair} does not name two values that a step computes; known are {known}",
        "Write A+B with two of these values, as `explain` shows them before fuse.",
    ),
    "inputs.unknown-shape": (
        "the shape of input {input!r} is not known, so none can be made",
        "Give the inputs as a file of arrays: measure MODEL --inputs X.npz on the command line.",
    ),
    "inputs.fitting": (
        "input {input!r} tells {op} {node!r} a shape, axes, a count or places: numbers made up at "
        "random would not fit",
        "Give the inputs as a file of arrays: measure MODEL --inputs X.npz on the command line.",
    ),
    "inputs.unreadable": (
        "the inputs cannot be read: {reason}",
        "Give a file that numpy.savez wrote, with one array of numbers an input.",
    ),
    "size.unknown": (
        "the model has no dimension called {name!r}; it has: {known}",
        "Give a size to one of these, or to none.",
    ),
    "size.pinned": (
        "{name} is pinned to {pin}, so it cannot be {value}",
        "Leave out one of the two, or give them one size.",
    ),
    "size.bounds": (
        "{name} = {value} is out of its range: {low} to {high}, a multiple of {divisor}",
        "Choose a size in this range.",
    ),
    "size.inputs": (
        "{name} is {given} in the inputs, so it cannot be {value}",
        "Leave out the size, or give inputs of that size.",
    ),
    "error.option": ("{text}", "Choose one of these."),
    "target.device": (
        "target {target} needs a GPU of NVIDIA, and none answers: {reason}",
        "Compile for cuda:ptx, which needs none, or run where a GPU and its driver are.",
    ),
    "target.measure": (
        "target {target} compiles for a GPU and runs nothing, so there is nothing to measure",
        "Measure with the target cuda where a GPU is, or with cpu.",
    ),
    "target.packages": (
        "target {target} needs packages for GPUs: {reason}",
        "Install them: pip install -r requirements-gpu.txt.",
    ),
    "pipeline.sign": (
        "pipeline, character {at}: expected '{sign}'",
        "Put it there, or compare the text with docs/passes.md.",
    ),
    "pipeline.word": (
        "pipeline, character {at}: expected a word",
        "Write the name of a pass or an option there.",
    ),
    "pipeline.end": (
        "pipeline, character {at}: expected a pass after the comma",
        "Write a pass there, or take the comma away.",
    ),
    "pipeline.minus": (
        "a `-name` follows `default,` or `op-by-op,`",
        "Start the text with default, or leave the pass out of a pipeline in full.",
    ),
    "pipeline.unknown": (
        "no pass is called {name!r}; there are: {known}",
        "Write one of these names.",
    ),
    "pipeline.absent": (
        "{name} is not in this order; write it in full",
        "List all passes by name and put it where it should run.",
    ),
    "pipeline.option": (
        "{name} has no option {option!r}; it has: {known}",
        "Use one of these, or none.",
    ),
    "pipeline.list": (
        "{name}: option {option} takes no list",
        "Give it one value, without brackets.",
    ),
    "pipeline.flag": (
        "{name}: option {option} is true or false",
        "Write true or false.",
    ),
    "pipeline.number": (
        "{name}: option {option} is a whole number, not {value!r}",
        "Write digits only.",
    ),
    "pipeline.choice": (
        "{name}: {reason}",
        "Choose one of the values that docs/passes.md lists.",
    ),
    "pipeline.required": (
        "{name} is required and cannot be dropped",
        "Leave it in; optional passes can be dropped.",
    ),
    "pipeline.once": (
        "{name} is required exactly once, it is there {found} times",
        "Keep exactly one of it.",
    ),
    "pipeline.before": (
        "{name} needs {needed} before it",
        "Move {name} behind {needed}.",
    ),
    "pipeline.planned": (
        "{name} stands before plan-memory, or the plan would not fit what it changes",
        "Move {name} before plan-memory.",
    ),
}
"""Message id -> (the problem, the way out), in English."""


class CompilerError(Exception):
    """Something a person can put right. `str` is the English sentence with the way out.

    `message` is the key of the sentence in the catalogues, `parameters` what it speaks of.
    """

    def __init__(self, message: str, **parameters: Parameter) -> None:
        self.message = message
        self.parameters: Mapping[str, Parameter] = parameters
        super().__init__(f"{self._where()}{self.problem}. {self.remedy}")

    def _where(self) -> str:
        return ""

    @property
    def problem(self) -> str:
        """What is wrong, in English."""
        text = TEXTS.get(self.message, (self.message, ""))[0]
        return text.format_map(self.parameters)

    @property
    def remedy(self) -> str:
        """The way out, in English."""
        return TEXTS.get(self.message, ("", ""))[1].format_map(self.parameters)

    @property
    def remedy_id(self) -> str:
        """The key of the way out in the catalogues."""
        return f"{self.message}.remedy"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(
    kind: type[CompilerError], args: tuple[object, ...], state: dict[str, object]
) -> CompilerError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class ModelError(CompilerError):
    """The model cannot be read or makes no sense.

    `file` is the model's name, `node` the node at fault as text (`#3 Add "residual"`), either
    may be empty.
    """

    def __init__(
        self, message: str, *, file: str = "", node: str = "", **parameters: Parameter
    ) -> None:
        self.file, self.node = file, node
        super().__init__(message, **parameters)

    def _where(self) -> str:
        node = f"node {self.node}" if self.node else ""
        where = ", ".join(part for part in (self.file, node) if part)
        return f"{where}: " if where else ""


class UnsupportedOperator(ModelError):
    """Neither the compiler nor the reference evaluator knows an operator: `node`, `domain`."""

    def __init__(self, node: str, domain: str, *, op: str, reason: str, file: str = "") -> None:
        self.domain = domain
        self.op = op
        super().__init__(
            "model.unsupported-operator", file=file, node=node, op=op, domain=domain, reason=reason
        )


class PinError(CompilerError):
    """A size asked for at compile time that the model's dimensions do not allow."""


class ForceError(CompilerError):
    """`force` or `forbid` of a pass names something that is not there."""


class InputsError(CompilerError):
    """Inputs that cannot be made."""


class OptionError(CompilerError):
    """An option of compile or measure with a value that it does not take."""

    def __init__(self, text: str) -> None:
        super().__init__("error.option", text=text)


class PipelineError(CompilerError):
    """A pipeline that is not well-formed, or whose passes can't stand as they do."""


class TargetError(CompilerError):
    """A machine to compile for that is not there, or lacks what compiling for it takes."""
