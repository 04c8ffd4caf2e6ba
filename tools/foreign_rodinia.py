"""Programs of Rodinia for foreign_programs: what they are built of and given, what has to come out.

Their data is not fetched: inputs are made here, small, and results are compared with references
written here. Each: (sources, words for nvcc, inputs(folder) -> arguments, is_right(folder, text)).
"""
import ctypes
import math
import random
import re

C = ctypes.CDLL(None)  # its rand() makes the inputs of some


def bfs_input(folder):
    draw = random.Random(1)
    graph = [[draw.randrange(5000) for _ in range(draw.randrange(1, 6))] for _ in range(5000)]
    lines, begin = [str(len(graph))], 0
    for edges in graph:
        lines.append(f"{begin} {len(edges)}")
        begin += len(edges)
    lines += ["0", str(begin)] + [f"{one} 1" for edges in graph for one in edges]
    (folder / "graph").write_text("\n".join(lines) + "\n")
    return ["graph"]


def bfs_is_right(folder, _):
    words = list(map(int, (folder / "graph").read_text().split()))
    count = words[0]
    places = list(zip(words[1:2 * count:2], words[2:2 * count + 1:2]))
    edges = words[2 * count + 3::2]
    cost, front = {0: 0}, [0]
    while front:
        reached = [to for one in front for to in edges[places[one][0]:sum(places[one])]]
        depth = cost[front[0]] + 1
        front = [one for one in dict.fromkeys(reached) if one not in cost]
        cost.update((one, depth) for one in front)
    wanted = "".join(f"{one}) cost:{cost.get(one, -1)}\n" for one in range(count))
    return (folder / "result.txt").read_text() == wanted


HOT = 64  # rows and columns


def hotspot_input(folder, layers=1):
    draw = random.Random(2)
    for name, low, high in (("temp", 320, 340), ("power", 0, 1e-3)):
        lines = [f"{draw.uniform(low, high):.6f}\n" for _ in range(HOT * HOT * layers)]
        (folder / name).write_text("".join(lines))
    return [HOT, 2, 8, "temp", "power", "out"]


def hotspot_is_right(folder, _):
    """Eight explicit steps; heat flows to four neighbours and to the air above."""
    temp, power = ([float(line) for line in (folder / name).read_text().split()]
                   for name in ("temp", "power"))
    side, thick, capacity, k = 0.016 / HOT, 0.0005, 1.75e6, 100
    cap = 0.5 * capacity * thick * side * side
    along, above = 1 / (2 * k * thick), thick / (k * side * side)
    step = 0.001 / (3.0e6 / (0.5 * thick * capacity))
    for _ in range(8):
        def at(row, column):
            return temp[min(max(row, 0), HOT - 1) * HOT + min(max(column, 0), HOT - 1)]
        def flow(i, here):
            row, column = divmod(i, HOT)
            sides = sum(at(row + by, column) + at(row, column + by) for by in (-1, 1))
            return power[i] + (sides - 4 * here) / along + (80 - here) / above
        temp = [here + step / cap * flow(i, here) for i, here in enumerate(temp)]
    got = [float(line.split()[1]) for line in (folder / "out").read_text().splitlines()]
    return len(got) == len(temp) and all(abs(a - b) < 2e-3 for a, b in zip(got, temp))


def hotspot3d_input(folder):
    hotspot_input(folder, 8)
    return [HOT, 8, 20, "power", "temp", "out"]


def accuracy_is_right(_, text):
    found = re.search(r"Accuracy: ([\d.e+-]+)", text)
    return bool(found) and float(found[1]) < 1e-3


def pathfinder_is_right(_, text):
    rows = [list(map(int, line.split())) for line in text.splitlines()
            if re.fullmatch(r"(\d+ ){500,}", line)]
    *wall, first, result = rows
    best = wall[0]
    for row in wall[1:]:
        best = [one + min(best[max(i - 1, 0):i + 2]) for i, one in enumerate(row)]
    return len(wall) == 20 and first == wall[0] and result == best


def gaussian_is_right(_, text):
    """What was solved for, put into the matrix, gives ones; two decimals are printed."""
    found = re.search(r"The final solution is: *\n([-\d. ]+)", text)
    if not found:
        return False
    size = 48
    solution = [float(word) for word in found[1].split()]
    matrix = [[10 * math.exp(-0.01 * abs(i - j)) for j in range(size)] for i in range(size)]
    right = [1.0] * size
    for k in range(size):
        for row in range(k + 1, size):
            by = matrix[row][k] / matrix[k][k]
            matrix[row] = [a - by * b for a, b in zip(matrix[row], matrix[k])]
            right[row] -= by * right[k]
    for k in reversed(range(size)):
        known = sum(matrix[k][j] * right[j] for j in range(k + 1, size))
        right[k] = (right[k] - known) / matrix[k][k]
    return len(solution) == size and all(abs(a - b) < 0.006 for a, b in zip(solution, right))


def verified(_, text):
    return ">>>Verify<<<<" in text and "dismatch" not in text


def drawn(seed, count):
    C.srand(seed)
    return [C.rand() for _ in range(count)]


NEAREST = 8


def nn_input(folder):
    draw = random.Random(3)
    places = [f"{draw.uniform(5, 70):5.1f}{draw.uniform(5, 99):5.1f}" for _ in range(2000)]
    lines = [f"{i:<28}{place}{'':10}\n" for i, place in enumerate(places)]
    (folder / "storms").write_text("".join(lines))
    (folder / "list").write_text("storms\n")
    return ["list", "-r", NEAREST, "-lat", 30, "-lng", 90]


def nn_is_right(folder, text):
    lines = (folder / "storms").read_text().splitlines()
    away = [math.hypot(float(line[28:33]) - 30, float(line[33:38]) - 90) for line in lines]
    got = re.findall(r"(\d+) .*--> Distance=([\d.]+)", text)
    return len(got) == NEAREST and all(
        abs(float(far) - least) < 1e-4 and abs(float(far) - away[int(one)]) < 1e-4
        for (one, far), least in zip(got, sorted(away)))


ALIGNED, PENALTY = 64, 10


def nw_is_right(folder, _):
    """All scores by the recurrence, then the way back that the program prints."""
    rows = re.findall(r"^\{([-\d, ]+)\}", (folder / "needle.cu").read_text(), re.M)
    alike = [list(map(int, row.split(","))) for row in rows]
    values = [one % 10 + 1 for one in drawn(7, 2 * ALIGNED)]
    down, along = values[:ALIGNED], values[ALIGNED:]
    pair = {(i + 1, j + 1): alike[a][b] for i, a in enumerate(down) for j, b in enumerate(along)}
    score = {(0, 0): 0}
    for i in range(1, ALIGNED + 1):
        score[i, 0] = score[0, i] = -PENALTY * i
    for i in range(1, ALIGNED + 1):
        for j in range(1, ALIGNED + 1):
            score[i, j] = max(score[i - 1, j - 1] + pair[i, j], score[i, j - 1] - PENALTY,
                              score[i - 1, j] - PENALTY)
    got = list(map(int, (folder / "result.txt").read_text().split(":")[1].split()))
    i = j = ALIGNED - 1
    wanted = [score[i, j]]
    while i or j:
        steps = [(i - 1, j - 1, pair.get((i, j), 0)), (i, j - 1, -PENALTY), (i - 1, j, -PENALTY)]
        steps = [(score[a, b], by, a, b) for a, b, by in steps if a >= 0 and b >= 0]
        best = max(value + by for value, by, _, _ in steps)
        for value, by, _, _ in steps:  # it mixes up values and sums where they happen to be equal
            best = value if best == value + by else best
        i, j = next((a, b) for value, _, a, b in steps if value == best)
        wanted.append(best)
    return got == wanted


# By their folder. srad_v2 is none: it reads 192 bytes in front of its image, which is a fault here.
PROGRAMS = {
    "bfs": (["bfs.cu"], [], bfs_input, bfs_is_right),
    "gaussian": (["gaussian.cu"], ["-DclockRate=major", "-DdeviceOverlap=major"],
                 lambda _: ["-s", 48], gaussian_is_right),
    "hotspot": (["hotspot.cu"], [], hotspot_input, hotspot_is_right),
    "hotspot3D": (["3D.cu"], [], hotspot3d_input, accuracy_is_right),
    "lud": (["cuda/lud.cu", "cuda/lud_kernel.cu", "common/common.c"], ["-Icommon"],
            lambda _: ["-s", 256, "-v"], verified),
    "pathfinder": (["pathfinder.cu"], ["-DBENCH_PRINT"], lambda _: [1000, 20, 5],
                   pathfinder_is_right),
    "nn": (["nn_cuda.cu"], [], nn_input, nn_is_right),
    "nw": (["needle.cu"], ["-DTRACEBACK"], lambda _: [ALIGNED, PENALTY], nw_is_right),
}
