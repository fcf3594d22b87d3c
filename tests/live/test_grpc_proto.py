"""The generated module belongs to the .proto file, and messages with large fields are ordinary messages."""

import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from sojourn.learning.replay.local import Local
from sojourn.live.engine import Work
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc import wire

TEXT = files("sojourn.live.engines.grpc").joinpath("federation.proto").read_text()
BLOCK = re.compile(r"^(message|enum) (\w+) \{(.*?)\}$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  (?:(optional|repeated) )?(\w+) (\w+) = (\d+);$", re.MULTILINE)
VALUE = re.compile(r"^  (\w+) = (\d+);$", re.MULTILINE)
TYPES = {"double": 1, "uint64": 4, "bool": 8, "string": 9, "bytes": 12, "uint32": 13}


def test_the_generated_messages_are_those_of_the_file():
    written = {name: FIELD.findall(body) for kind, name, body in BLOCK.findall(TEXT) if kind == "message"}
    generated = pb.DESCRIPTOR.message_types_by_name
    assert set(written) == set(generated)
    for name, fields in written.items():
        assert {field: int(number) for _, _, field, number in fields} == {
            field.name: field.number for field in generated[name].fields
        }
        for label, kind, field, _ in fields:
            made = generated[name].fields_by_name[field]
            named = made.message_type or made.enum_type
            assert named.name == kind if named is not None else made.type == TYPES[kind]
            assert made.is_repeated == (label == "repeated")
            assert label != "optional" or made.has_presence


def test_the_generated_enums_and_calls_are_those_of_the_file():
    for kind, name, body in BLOCK.findall(TEXT):
        if kind == "enum":
            values = {value: int(number) for value, number in VALUE.findall(body)}
            assert values == {one.name: one.number for one in pb.DESCRIPTOR.enum_types_by_name[name].values}
    calls = re.findall(r"rpc (\w+)\((\w+)\) returns \((?:stream )?(\w+)\)", TEXT)
    service = pb.DESCRIPTOR.services_by_name["Federation"]
    assert service.full_name == wire.SERVICE
    assert calls == [(one.name, one.input_type.name, one.output_type.name) for one in service.methods]
    assert {*wire.METHODS, "Watch"} == {name for name, _, _ in calls}


def test_the_version_of_the_protocol_is_the_one_that_is_written():
    table = Path(__file__).parents[2].joinpath("docs/operations.md").read_text()
    assert f"// Version of the protocol: {wire.PROTOCOL}." in TEXT
    assert f"| protocol | {wire.PROTOCOL} |" in table
    assert f"; {wire.PROTOCOL} = " in TEXT  # what has changed


def test_every_message_and_field_is_documented():
    lines = TEXT.splitlines()
    for before, line in pairwise(lines):
        if re.match(r"(message|enum) |  .* = \d+;|  rpc ", line):
            assert before.lstrip().startswith("//"), line


@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_a_large_field_is_an_ordinary_field(size):
    data = bytes(range(256)) * 300
    head = pb.PushRequest(session="s", steps=300, loss=-1.5, offset=2**40)
    content = wire.joined(head, [memoryview(data)[: size // 2], memoryview(data)[size // 2 : size]])
    whole = pb.PushRequest.FromString(content)
    assert whole.data == data[:size]
    for order in (content, whole.SerializeToString()):
        message, found = wire.split(pb.PushRequest, order)
        assert (message, bytes(found)) == (head, data[:size])


def test_work_arrives_as_it_was_sent():
    local = Local(steps=5, epochs=3, batch_size=7, step_size=0.3, momentum=0.9, weight_decay=1e-4, proximal=0.1, clip=2)
    for one in (local, Local()):
        work = Work(10, 2, one, 2**64 - 1, "independent", True)
        assert wire.from_work(wire.to_work(work)) == work


def test_a_payload_is_cut_across_its_tensors():
    first, second = torch.arange(5.0), torch.arange(3.0)
    payload = wire.Payload(first, second)
    whole = first.numpy().tobytes() + second.numpy().tobytes()
    assert payload.size == len(whole) == 32
    for offset in range(0, 32, 6):
        assert b"".join(payload.cut(offset, 6)) == whole[offset : offset + 6]
