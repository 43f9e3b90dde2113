"""Calls of replicas: one of each shard, another if it fails, and answers of one state."""

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
    """Shards without a replica that answers in time."""

    def __init__(self, shards: list[int], total: int, seconds: float, cause: str) -> None:
        super().__init__(shards, total, seconds, cause)
        self.shards = shards
        self.answers: dict[int, Answer] = {}
        self._message = (
            f"no replica of shard {', '.join(map(str, shards))} of {total} answered within {seconds:g} s{cause}; see "
            "Cluster.replicas() for what Ray waits for, or raise timeout"
        )

    def __str__(self) -> str:
        return self._message


def replica_name(url: str, shard: int, replica: int) -> str:
    """The name of an actor."""
    return f"{url}#{shard}/{replica}"


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
                unavailable = Unavailable(missing, self.shards, seconds, reason)
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

    def read(
        self, minimum: int, method: str, arguments: tuple[Any, ...], seconds: float, attempts: int | None
    ) -> tuple[int, dict[int, Any]] | None:
        """Calls a read of every shard. Returns the number of the batch after which all of them answered, and results;
        or None if changes went on during all attempts."""
        deadline = time.monotonic() + seconds
        answers: dict[int, Answer] = {}
        while attempts is None or attempts > 0:
            wanted = [s for s in range(self.shards) if s not in answers or answers[s].sequence < minimum]
            calls = {shard: (minimum, method, *arguments) for shard in wanted}
            left = max(0.0, deadline - time.monotonic())
            try:
                found = self.one_of_each("read", "read", calls, left, stop=lambda answer: answer.shards != self.shards)
            except Unavailable as error:
                error.answers = {**answers, **error.answers}
                raise
            answers.update(found)
            newest = max(answers.values(), key=lambda answer: answer.sequence)
            if newest.shards != self.shards:
                self.shards = newest.shards
                answers = {shard: answer for shard, answer in answers.items() if shard < self.shards}
            minimum = max(minimum, newest.sequence)
            if len(answers) == self.shards and all(answer.sequence == minimum for answer in answers.values()):
                return minimum, {shard: answers[shard].result for shard in range(self.shards)}
            if attempts is not None:
                attempts -= 1
        return None

    def all_ready(self, shards: Iterable[int], seconds: float) -> None:
        """Waits for every replica of some shards. Raises what keeps one from starting."""
        refs = self._ready(shards)
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
        refs = self._ready(range(self.shards))
        done, _ = ray.wait(list(refs), num_returns=len(refs), timeout=seconds)
        found = []
        for ref, (shard, replica) in refs.items():
            about: dict[str, Any] = {"shard": shard, "replica": replica, "ready": False}
            if ref in done:
                try:
                    about.update(ray.get(ref), ready=True)
                except RayError:
                    self.suspect(shard, replica)
            found.append(about)
        return found

    def _ready(self, shards: Iterable[int]) -> dict[Any, tuple[int, int]]:
        pairs = [(shard, replica) for shard in shards for replica in range(self.replicas)]
        return {self.handle(*pair).ready.options(concurrency_group="read").remote(): pair for pair in pairs}
