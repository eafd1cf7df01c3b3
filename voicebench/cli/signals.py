"""``voicebench synth``: write a synthetic test signal (VB21, VB25)."""

import argparse
from pathlib import Path
from typing import Any

from voicebench.cli.options import UsageError, positive_float, positive_int
from voicebench.exits import Exit

KINDS = ("speech", "tone", "noise", "telephone", "silence")


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``synth``."""
    synth = commands.add_parser("synth", parents=[common], help="write a synthetic test signal to a WAV file")
    synth.add_argument("output", type=Path, metavar="OUT", help="WAV file to write")
    synth.add_argument("--kind", choices=KINDS, default="speech", help="default: speech")
    synth.add_argument("--duration-ms", type=positive_float, default=1500.0, help="default: 1500")
    synth.add_argument("--level-db", type=float, default=-20.0, help="RMS level in dBFS (default: -20)")
    synth.add_argument("--sample-rate", type=positive_int, default=16000, help="in Hz (default: 16000)")
    synth.add_argument("--freq-hz", type=positive_float, default=440.0, help="of a tone (default: 440)")
    synth.add_argument("--seed", type=int, default=0, help="of speech, noise and telephone (default: 0)")
    synth.set_defaults(handler=synth_command)


def synth_command(args: argparse.Namespace) -> int:
    """Make the signal and write it."""
    from voicebench.audio import files, synth

    if not args.level_db <= 0:
        raise UsageError(f"--level-db {args.level_db:g}: must be at most 0 dBFS")
    if not 8000 <= args.sample_rate <= 96000:
        raise UsageError(f"--sample-rate {args.sample_rate}: must be between 8000 and 96000")
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: must be at least 0")
    length_ms, rate = args.duration_ms, args.sample_rate
    match args.kind:
        case "speech":
            pcm = synth.speech(length_ms, rate, args.level_db, seed=args.seed)
        case "tone":
            pcm = synth.tone(length_ms, rate, args.freq_hz, args.level_db)
        case "telephone":
            pcm = synth.telephone(length_ms, rate, args.level_db, seed=args.seed)
        case "noise":
            pcm = synth.noise(length_ms, rate, args.level_db, seed=args.seed)
        case _:
            pcm = synth.silence(length_ms, rate)
    try:
        files.write_wav(args.output, pcm, rate)
    except OSError as error:
        raise UsageError(f"{args.output}: cannot be written: {error.strerror}") from None
    print(f"wrote {args.output} ({length_ms:g} ms of {args.kind} at {rate} Hz)")
    return Exit.OK
