"""python -m tests.e2e.bed up N | down | fault HOST KIND | images: test hosts by hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.bed.bed import Bed, current, down, up
from tests.e2e.bed.faults import FAULTS
from tests.e2e.bed.images import ARCHIVES, ensure_archive
from tests.e2e.bed.plan import Accelerator, BedError, Docker, Options, Shape
from tests.e2e.bed.state import FOLDER, IMAGES


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 with the reason on stderr when it cannot be done."""
    args = _parser().parse_args(argv)
    try:
        _do(args)
    except BedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _do(args: argparse.Namespace) -> None:
    if args.command == "up":
        _tell(up(_options(args), folder=args.folder))
    elif args.command == "down":
        down(args.folder)
    elif args.command == "status":
        _tell(current(args.folder))
    elif args.command == "fault":
        current(args.folder)[args.host].fault(args.kind, args.value)
    elif args.command == "use":
        current(args.folder)[args.host].use(Accelerator(args.accelerator))
    else:
        for name in ARCHIVES:
            print(ensure_archive(IMAGES, name))


def _options(args: argparse.Namespace) -> Options:
    pairs = [text.partition("=") for text in args.accelerator]
    return Options(
        count=args.count,
        shape=Shape(args.shape) if args.shape else None,
        accelerators={name: Accelerator(kind) for name, _, kind in pairs},
        dockers={name: Docker(kind) for name, _, kind in (text.partition("=") for text in args.docker)},
        images=tuple(args.image) or ("engines",),
        binds=tuple(args.bind),
    )


def _tell(bed: Bed) -> None:
    for host in bed.hosts:
        print(f"{host.name}  {host.user}@{host.address}  fabric {' '.join(host.fabric_addresses) or '-'}  {host.plan.accelerator.value}")
    print(f"ssh -F {bed.ssh_config} {bed.hosts[0].name}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.bed", description="Test hosts on this machine.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the bed keeps its things (default: .dev/bed)")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("up", help="start hosts spark-1 to spark-N")
    command.add_argument("count", type=int, metavar="N")
    command.add_argument("--shape", choices=list(Shape), help="how the fabric is cabled")
    command.add_argument("--accelerator", action="append", default=[], metavar="HOST=KIND", help=", ".join(Accelerator))
    command.add_argument("--docker", action="append", default=[], metavar="HOST=KIND", help="installed, newer, containerd; or nothing")
    command.add_argument("--image", action="append", default=[], choices=list(ARCHIVES), help="load these images (default: engines)")
    command.add_argument("--bind", action="append", default=[], metavar="PATH", help="every host sees PATH, read-only")
    commands.add_parser("down", help="remove everything, also after a crash")
    commands.add_parser("status", help="show the hosts")
    commands.add_parser("images", help="make the images")
    command = commands.add_parser("fault", help="break or mend a host")
    command.add_argument("host")
    command.add_argument("kind", choices=list(FAULTS))
    command.add_argument("value", nargs="?", default="", help="of cut: mgmt or fabric; of slow: Mbit/s")
    command = commands.add_parser("use", help="let a host have another accelerator")
    command.add_argument("host")
    command.add_argument("accelerator", choices=list(Accelerator))
    return parser


if __name__ == "__main__":
    sys.exit(main())
