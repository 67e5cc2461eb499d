"""The command line, as tests use it."""

from functools import partial

from click.testing import CliRunner
from tests.doors.doors import Finished

from kho import app, doctor
from kho.doors.cli import build
from kho.doors.cli.context import Program
from kho.entrypoint import asking, attach, serve
from kho.kernel.background import Background
from kho.kernel.capability import Capability
from kho.kernel.registry import Registry
from kho.settings import Settings


def program_of(settings: Settings, *extra: Capability, name: str = "kho") -> Program:
    return Program(
        version="0",
        home=settings.home,
        http=settings.http,
        admin=app.local_principal(settings, admin=True),
        registry=lambda: Registry([*app.describe().capabilities, *extra], Background()),
        open_hub=lambda: app.open_hub(settings, extra),
        stdio=lambda tools: None,
        serve=partial(serve, settings),
        where=app.whereabouts(settings),
        evaluate=doctor.evaluator(settings),
        examine=partial(doctor.examine, settings),
        asking=asking,
        attach=partial(attach, settings),
        simulate=doctor.simulate,
        faults=app.FAULTS,
        listen_mqtt=partial(setattr, settings.devices, "mqtt_broker"),
        name=name,
    )


def run_in_process(program: Program, *arguments: str, stdin: bytes = b"") -> Finished:
    result = CliRunner().invoke(build(program), arguments, input=stdin, catch_exceptions=False, prog_name=program.name)
    return Finished(result.exit_code, result.stdout, result.stderr)
