"""Checks that computed neighbors equal the ground truth except for ties.

usage: same_neighbors.py TRUTH.ibin FOUND.ibin

Both files hold the u32 counts of queries and neighbors, then ids; the truth also f32 distances, and may have more
neighbors per query. If two ids differ, the truth must contain the found one at an equal distance (a tie) or within a
millionth (a near tie: floats summed in another order). Exits with 1 otherwise.
"""
import array
import sys


def read(path):
    words = array.array("I")
    with open(path, "rb") as file:
        words.frombytes(file.read())
    queries, k = words[:2]
    distances = array.array("f")
    distances.frombytes(words[2 + queries * k :].tobytes())
    return queries, k, words[2 : 2 + queries * k], distances


def main(truth_path, found_path):
    queries, wide, truth, distances = read(truth_path)
    found_queries, k, found, _ = read(found_path)
    if found_queries != queries or k > wide:
        sys.exit(f"{found_queries} queries of {k} neighbors do not fit to {queries} of {wide}")
    same = ties = near = wrong = 0
    for query in range(queries):
        ids = truth[query * wide : (query + 1) * wide]
        lengths = distances[query * wide : (query + 1) * wide]
        answers = found[query * k : (query + 1) * k]
        wrong += k - len(set(answers))
        for place, answer in enumerate(answers):
            if answer == ids[place]:
                same += 1
                continue
            there = lengths[ids.index(answer)] if answer in ids else None
            if there == lengths[place]:
                ties += 1
            elif there is not None and abs(there - lengths[place]) <= 1e-6 * abs(lengths[place]):
                near += 1
            else:
                wrong += 1
    print(f"{queries} queries, k = {k}: {same} the same, {ties} ties, {near} near ties, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
