"""A group of commands that lists when none of them is named."""

import click


class ListsByDefault(click.Group):
    """Takes arguments that begin with no command's name for those of its command ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``list`` in front of the arguments where no command is named.

        Raises UsageError for a number where numbers are shown: it looks like one to be shown.
        """
        if args and args[0].isdecimal() and "show" in self.commands:
            raise click.UsageError(f"to look at {args[0]}: {ctx.command_path} show {args[0]}", ctx)
        named = bool(args) and args[0] in {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if named else ["list", *args])
