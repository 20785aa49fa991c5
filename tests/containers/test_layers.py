"""Which layers a host has, and how an archive is made without them."""

from __future__ import annotations

from sparkrun.containers.layers import ImageStock, StockedImage, layer_files, parse_image_stock, save_script
from sparkrun.utils.shell import Section

BUSYBOX = (
    "sha256:e7ce956d19a577b45e43d3508c1f5693d9ef46a248b77cd33368d00d3c3daa44",
    "sha256:a894b450bb5ece16e07625c03bb567f617f800e55aa58a07954bc7c28e4b1003",
)
FILED_AS = (
    "6285d5e5c8c3f6a986709fce285cd5a1e68fcd7c4ef0825fa85cd3eb81ba71e2",
    "30bffe0253607d4861ac9dd13d41fb5e116357c3b9b079dd1ba938ba4231a757",
)
"""The folders in which dockerd 20.10.24 saved these layers."""


def test_layers_lie_where_each_version_of_docker_files_them() -> None:
    blobs = tuple(f"blobs/sha256/{layer.partition(':')[2]}" for layer in BUSYBOX)

    assert layer_files(BUSYBOX) == (*blobs, *(f"{name}/layer.tar" for name in FILED_AS))


def test_a_layer_counts_only_on_top_of_the_same_ones() -> None:
    stock = ImageStock(held=(("a", "b", "x"), ("b", "c")))

    assert [stock.has_of(layers) for layers in (("a", "b", "c"), ("b", "c"), ("c",), ())] == [2, 2, 0, 0]


def test_a_stock_is_read_from_the_scripts_answers() -> None:
    answers = (
        ("STORE", "overlay2"),
        ("ROOT", "/var/lib/docker"),
        ("ROOT_FREE_KIB", "4"),
        ("IMAGE", "r/i:1\tsha256:1\t70\tr/i@sha256:d,\tsha256:a,sha256:b,\t30,0,40,"),
        ("IMAGE", "r/j:1\tsha256:2\t70\t\tsha256:a,sha256:b,\t30,"),
        ("HELD", "sha256:a,sha256:b,"),
    )

    stock = parse_image_stock(Section("STOCK", answers, True))

    assert stock.images["r/i:1"] == StockedImage("sha256:1", 70, frozenset({"sha256:d"}), ("sha256:a", "sha256:b"), (40, 30))
    assert [stock.images[name].bytes_above(1) for name in ("r/i:1", "r/j:1")] == [30, None]
    assert (stock.free_bytes, stock.takes_parts, stock.held) == (4096, True, (("sha256:a", "sha256:b"),))


def test_a_whole_image_is_saved_as_it_is() -> None:
    assert save_script("r/i:1", ()) == "exec docker save -- r/i:1"
