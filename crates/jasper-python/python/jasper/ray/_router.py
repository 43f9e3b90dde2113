"""Calls of replicas: one of each shard, another if it fails, and answers of one state."""

import contextlib
import functools
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from jasper.errors import Error
from jasper.ray._replica import Answer, NotReady

NAMESPACE = "jasper"

SUSPECT = 3.0
"""Seconds for which others are preferred to a replica that failed."""

HEDGE = 2.0
"""Seconds after which a second replica is asked too."""

ATTEMPTS = 3
"""Reads that meet changes this many times are put between two changes by the sequencer."""


class Unavailable(Error):
    """The cluster, or some shards, did not answer in time."""

    def __init__(self, message: str, shards: Iterable[int] = ()) -> None:
        super().__init__(message, shards)
        self.shards = list(shards)
        """Shards of which no replica answered."""
        self.answers: dict[int, Answer] = {}

    def __str__(self) -> str:
        return str(self.args[0])


def left(deadline: float) -> float:
    """Seconds until then."""
    return max(0.0, deadline - time.monotonic())


def sequencer_name(url: str) -> str:
    """The name of the actor that orders changes."""
    return f"{url}#sequencer"


def replica_name(url: str, shard: int, replica: int) -> str:
    """The name of an actor."""
    return f"{url}#{shard}/{replica}"


def group_name(url: str, shard: int) -> str:
    """The name of the placement group of a shard."""
    return f"{url}#{shard}"


def exists(name: str) -> bool:
    """Whether there is an actor."""
    try:
        ray.get_actor(name, NAMESPACE)
    except ValueError:
        return False
    return True


def end(lookup: Callable[[], Any], kill: Callable[[Any], None], deadline: float) -> bool:
    """Ends what has a name, and returns when the name is free. Returns whether it was there."""
    found = False
    while True:
        try:
            kill(lookup())
        except ValueError:
            return found
        if time.monotonic() > deadline:
            raise Unavailable("actors have not ended in time")
        found = True
        time.sleep(0.05)


def end_actor(name: str, deadline: float) -> bool:
    """Ends an actor."""
    return end(
        functools.partial(ray.get_actor, name, NAMESPACE), functools.partial(ray.kill, no_restart=True), deadline
    )


def task_error(error: RayTaskError) -> BaseException:
    """What the task raised."""
    return error.cause if isinstance(error.cause, BaseException) else error


class Router:
    """The replicas of a cluster, as one process sees them."""

    def __init__(self, url: str, shards: int, replicas: int) -> None:
        self.url, self.shards, self.replicas = url, shards, replicas
        self._handles: dict[tuple[int, int], Any] = {}
        self._suspects: dict[tuple[int, int], float] = {}

    def handle(self, shard: int, replica: int) -> Any:
        """The actor. Raises ValueError if there is none."""
        found = self._handles.get((shard, replica))
        if found is None:
            found = ray.get_actor(replica_name(self.url, shard, replica), NAMESPACE)
            self._handles[shard, replica] = found
        return found

    def suspect(self, shard: int, replica: int) -> None:
        """Prefers other replicas for a while, and then looks the actor up again: it may be another one."""
        self._handles.pop((shard, replica), None)
        self._suspects[shard, replica] = time.monotonic() + SUSPECT

    def order(self, shard: int) -> list[int]:
        """Replicas of a shard: those that failed lately last, others at random."""
        now = time.monotonic()
        return sorted(
            range(self.replicas), key=lambda r: (self._suspects.get((shard, r), 0.0) > now, random.random())
        )

    def one_of_each(
        self,
        group: str,
        method: str,
        arguments: dict[int, tuple[Any, ...]],
        seconds: float,
        *,
        hedge: float = HEDGE,
        stop: Callable[[Any], bool] = lambda answer: False,
    ) -> dict[int, Any]:
        """Calls a method of one replica of each shard with its arguments.

        Returns early, with the answers until then, if `stop` is true of one. Raises Unavailable after `seconds`, and
        what the first of the shards raises.
        """
        deadline = time.monotonic() + seconds
        answers: dict[int, Any] = {}
        pending: dict[Any, tuple[int, int]] = {}
        queue = {shard: self.order(shard) for shard in arguments}
        asked: dict[int, float] = {}
        causes: dict[int, Exception] = {}
        errors: dict[int, BaseException] = {}

        def ask(shard: int) -> None:
            replica = queue[shard].pop(0)
            asked[shard] = time.monotonic()
            try:
                call = getattr(self.handle(shard, replica), method).options(concurrency_group=group)
                pending[call.remote(*arguments[shard])] = shard, replica
            except ValueError as error:  # The sequencer has not started it yet, or has ended it.
                causes[shard] = error
                self.suspect(shard, replica)

        for shard in arguments:
            ask(shard)
        while missing := [shard for shard in arguments if shard not in answers and shard not in errors]:
            now = time.monotonic()
            if now > deadline:
                reason = next((f": {causes[shard]}" for shard in missing if shard in causes), "")
                unavailable = Unavailable(
                    f"no replica of shard {', '.join(map(str, missing))} of {self.shards} answered within {seconds:g} "
                    f"s{reason}; see Cluster.replicas() for what Ray waits for, or raise timeout",
                    missing,
                )
                unavailable.answers = answers
                raise unavailable
            running = {shard for shard, _ in pending.values()}
            for shard in missing:
                if queue[shard] and (shard not in running or now > asked[shard] + hedge):
                    ask(shard)
                elif shard not in running and now > asked[shard] + 0.1:
                    queue[shard] = self.order(shard)
                    ask(shard)
            if not pending:
                time.sleep(0.05)
                continue
            done, _ = ray.wait(list(pending), timeout=min(0.1, deadline - now + 0.01))
            for ref in done:
                shard, replica = pending.pop(ref)
                try:
                    answer = ray.get(ref)
                except RayTaskError as error:
                    cause = task_error(error)
                    if isinstance(cause, NotReady):
                        causes[shard] = cause
                        self.suspect(shard, replica)
                    else:
                        errors[shard] = cause
                except RayError as error:
                    causes.setdefault(shard, error)
                    self.suspect(shard, replica)
                else:
                    answers.setdefault(shard, answer)
                    if stop(answer):
                        return answers
        if errors:
            raise errors[min(errors)] from None
        return answers

    def end_shards(self, first: int, deadline: float) -> None:
        """Ends the replicas of shards from one on, also of those that a rebalance has left."""
        shard = first
        while self.end_shard(shard, deadline) or shard < self.shards:
            shard += 1

    def end_shard(self, shard: int, deadline: float) -> bool:
        """Ends the replicas of a shard. Returns whether there were any."""
        found = False
        for replica in range(self.replicas):
            self.suspect(shard, replica)
            found |= end_actor(replica_name(self.url, shard, replica), deadline)
        group = functools.partial(ray.util.get_placement_group, group_name(self.url, shard))
        return end(group, ray.util.remove_placement_group, deadline) or found

    def read(
        self, minimum: int, method: str, arguments: tuple[Any, ...], seconds: float, attempts: int | None
    ) -> tuple[int, dict[int, Any]] | None:
        """Calls a read of every shard. Returns the number of the batch after which all of them answered, and results;
        or None if changes went on during all attempts.

        An answer is that of all batches from `since` to `sequence`: those after the first have changed nothing there.
        """
        deadline = time.monotonic() + seconds
        answers: dict[int, Answer] = {}
        while attempts is None or attempts > 0:
            wanted = [s for s in range(self.shards) if s not in answers or answers[s].sequence < minimum]
            calls = {shard: (minimum, method, *arguments) for shard in wanted}
            try:
                found = self.one_of_each("read", "read", calls, left(deadline), stop=lambda answer: answer.shards != self.shards)
            except Unavailable as error:
                error.answers = {**answers, **error.answers}
                raise
            answers.update(found)
            newest = max(answers.values(), key=lambda answer: answer.sequence)
            if newest.shards != self.shards:
                self.shards = newest.shards
                answers = {shard: answer for shard, answer in answers.items() if shard < self.shards}
            minimum = max(minimum, *(answer.since for answer in answers.values()))
            oldest = min(answer.sequence for answer in answers.values())
            if len(answers) == self.shards and oldest >= minimum:
                return oldest, {shard: answers[shard].result for shard in range(self.shards)}
            if attempts is not None:
                attempts -= 1
        return None

    def all_ready(self, shards: Iterable[int], seconds: float) -> None:
        """Waits for every replica of some shards. Raises what keeps one from starting."""
        refs = {self._ready(*pair): pair for pair in self._pairs(shards)}
        done, waiting = ray.wait(list(refs), num_returns=len(refs), timeout=seconds)
        for ref in done:
            try:
                ray.get(ref)
            except RayTaskError as error:
                cause = task_error(error)
                raise (getattr(cause, "reason", None) or cause) from None
        if waiting:
            shard, replica = refs[waiting[0]]
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            room = "; ".join(f"{n.get('CPU', 0):g} CPUs, {n.get('memory', 0) / 1e9:.1f} GB" for n in nodes)
            raise Error(
                f"{len(waiting)} of {len(refs)} replicas have not started within {seconds:g} s, first replica {replica} "
                f"of shard {shard}; the nodes have {room}: lower num_cpus, memory, shards or replicas, or add nodes"
            )

    def survey(self, seconds: float) -> list[dict[str, Any]]:
        """What each replica says of itself, if it answers in time."""
        found: list[dict[str, Any]] = []
        refs = {}
        for shard, replica in self._pairs(range(self.shards)):
            found.append({"shard": shard, "replica": replica, "ready": False})
            with contextlib.suppress(ValueError):  # There is no such actor.
                refs[self._ready(shard, replica)] = found[-1]
        done, _ = ray.wait(list(refs), num_returns=len(refs), timeout=seconds) if refs else ([], [])
        for ref in done:
            try:
                refs[ref].update(ray.get(ref), ready=True)
            except RayError:
                self.suspect(refs[ref]["shard"], refs[ref]["replica"])
        return found

    def _pairs(self, shards: Iterable[int]) -> list[tuple[int, int]]:
        return [(shard, replica) for shard in shards for replica in range(self.replicas)]

    def _ready(self, shard: int, replica: int) -> Any:
        return self.handle(shard, replica).ready.options(concurrency_group="read").remote()
