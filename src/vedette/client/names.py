"""Readable names for runs that were given none: two words and a number."""

import os

_FIRST = """amber azure brave bright brisk calm clear clever cosmic crisp curious dapper daring dusky eager early
fancy fair fleet frosty gentle giddy gilded golden grand happy hardy hazel hidden humble icy jolly keen kind lively
lucky lunar mellow merry mighty misty noble nimble patient plucky polar proud quick quiet rapid rosy ruby rustic
sandy serene shiny silent silver sleek snowy solar steady stout sunny swift tidy topaz tranquil vivid warm wild
wise witty young zesty""".split()
_SECOND = """alder badger beacon birch bison brook cedar cliff cloud comet condor coral crane creek dawn delta dune
eagle ember falcon fern finch fjord forest fox garnet glacier grove harbor hawk heron hill ibis iris island ivy jay
kestrel lake lark linden lynx maple marten meadow mesa moon moss oak ocean olive orchid osprey otter owl peak pine
plover prairie puffin quail raven reef ridge river robin sable sparrow spruce star stork stream swan thistle thrush
tide tiger valley violet willow wren yarrow""".split()


def new_name(digest: bytes = b"") -> str:
    """Make a name such as `brisk-otter-417`; it neither uses nor changes the state of the module `random`.

    `digest`: what several processes have in common that must find the same name.
    """
    dice, number = divmod(int.from_bytes(digest[:8] or os.urandom(8)), 999)
    first, second = divmod(dice, len(_SECOND))
    return f"{_FIRST[first % len(_FIRST)]}-{_SECOND[second]}-{number + 1}"
