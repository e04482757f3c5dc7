"""A group of commands that lists when none of them is named."""

import click


class ListsByDefault(click.Group):
    """Takes arguments that begin with no command's name for those of its command ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``list`` in front of the arguments where no command is named."""
        named = bool(args) and args[0] in {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if named else ["list", *args])
