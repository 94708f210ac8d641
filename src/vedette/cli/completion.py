"""print the code that lets your shell complete commands and runs with TAB
examples:
  eval "$(vedette completion bash)"
  vedette completion zsh >> ~/.zshrc
"""

import argparse

from argcomplete.shell_integration import shellcode


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "SHELL",
        nargs="?",
        default="bash",
        choices=("bash", "zsh", "fish", "tcsh", "powershell"),
        help="which shell (default bash)",
    )


def run(args: argparse.Namespace) -> int:
    """Print shell code."""
    print(shellcode(["vedette"], shell=args.SHELL))
    return 0
