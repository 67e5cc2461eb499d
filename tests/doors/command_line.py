"""The command line, as tests use it."""

from functools import partial

from click.testing import CliRunner
from tests.doors.doors import Finished

from kho import app, doctor, slices
from kho.doors.cli import build
from kho.doors.cli.context import Program
from kho.entrypoint import asking, attach, backups, models, serve
from kho.kernel.background import Background
from kho.kernel.capability import Capability
from kho.kernel.registry import Registry
from kho.sanitizer.policy import mask_secrets
from kho.settings import Settings, local_principal, whereabouts
from kho.simulator.faults import FAULTS


def program_of(settings: Settings, *extra: Capability, name: str = "kho") -> Program:
    return Program(
        version="0",
        http=settings.http,
        admin=local_principal(settings, admin=True),
        slices=[*slices.SLICES, *(one.name for one in extra)],
        registry=lambda names: Registry(
            [one for one in (*slices.describe(names).capabilities, *extra) if one.name in names], Background()
        ),
        open_hub=lambda names: app.open_hub(settings, extra, only=names),
        stdio=lambda tools: None,
        serve=partial(serve, settings),
        where=whereabouts(settings),
        home=settings.home,
        environment={},
        mask=mask_secrets,
        evaluate=doctor.evaluator(settings),
        examine=partial(doctor.examine, settings),
        standing=partial(doctor.standing, settings),
        migrate=partial(doctor.bring_up_to_date, settings),
        asks=settings.database_url is not None,
        backups=partial(backups, settings),
        verify=partial(doctor.verify, settings),
        salvage=partial(doctor.salvage, settings),
        models=partial(models, settings),
        asking=asking,
        attach=partial(attach, settings),
        simulate=doctor.simulate,
        faults=FAULTS,
        listen_mqtt=partial(setattr, settings.devices, "mqtt_broker"),
        name=name,
    )


def run_in_process(program: Program, *arguments: str, stdin: bytes = b"") -> Finished:
    result = CliRunner().invoke(build(program), arguments, input=stdin, catch_exceptions=False, prog_name=program.name)
    return Finished(result.exit_code, result.stdout, result.stderr)
