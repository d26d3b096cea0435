"""Tests of the client against a real cluster. e2e.TestPython starts it and passes its address in the environment."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import unittest

import synapse_client as sc
from synapse_client import api

SERVER = os.environ.get("SYNAPSE_TEST_SERVER", "")
TLS = os.environ.get("SYNAPSE_TEST_TLS", "")
OTHER = os.environ.get("SYNAPSE_TEST_OTHER", "")  # tokens of a submitter and a viewer
VIEWER = os.environ.get("SYNAPSE_TEST_VIEWER", "")
SOCKET = os.environ.get("SYNAPSE_TEST_SOCKET", "")
RESTART = os.environ.get("SYNAPSE_TEST_RESTART", "")  # a file; when the test creates it, the scheduler is killed
PATIENCE = 120.0

# A program that submits one of its functions without cloudpickle.
_ALONE = """
import json, sys
sys.modules["cloudpickle"] = None
import synapse_client as sc

def double(x):
    return 2 * x

if __name__ == "__main__":
    executor = sc.Executor(sys.argv[1])
    executor.update_parameters(**json.loads(sys.argv[2]))
    print(executor.submit(double, 21).result(100))
"""


@unittest.skipUnless(SERVER, "it wants a cluster, as e2e.TestPython has one")
class ClusterTest(unittest.TestCase):
    def setUp(self) -> None:
        self.client = sc.Client(SERVER, tls=TLS)
        self.addCleanup(self.client.close)

    def run_to_end(self, *words: str) -> sc.Job:
        job = self.client.submit(list(words), cpus=0.1)
        self.assertEqual(job.wait(PATIENCE, check=True).phase, "succeeded")
        return job

    def test_from_submit_to_history(self) -> None:
        job = self.client.submit(
            ["sh", "-c", "echo rank $SYNAPSE_RANK of $WHAT; echo wrong >&2"],
            tasks=2, gpus=1, cpus=0.1, name="pair", env={"WHAT": "two"}, labels={"from": "python"}, request_id="once",
        )
        again = self.client.submit(
            ["sh", "-c", "echo rank $SYNAPSE_RANK of $WHAT; echo wrong >&2"],
            tasks=2, gpus=1, cpus=0.1, name="pair", env={"WHAT": "two"}, labels={"from": "python"}, request_id="once",
        )
        self.assertEqual(again.id, job.id)
        parts = list(job.logs(follow=True))
        self.assertEqual(job.wait(PATIENCE).record.state, api.JobState.SUCCEEDED)
        wrote = {(p.rank, p.stderr): p.data for p in parts if p.data}
        self.assertEqual(wrote[(1, False)], b"rank 1 of two\n")
        self.assertEqual(wrote[(0, True)], b"wrong\n")
        self.assertEqual(job.output(), "rank 0 of two\n")
        self.assertIn(job.id, [j.record.id for j in self.client.jobs(name="pair")])
        self.assertEqual({n.record.id for n in self.client.nodes()}, {"n1"})
        past = next(p for p in self.client.history(name="pair") if p.id == job.id)
        self.assertEqual((past.state, len(past.attempts)), (api.JobState.SUCCEEDED, 1))
        self.assertGreater(past.finished_unix_ms, 1 << 40)
        self.assertEqual(self.client.job(job.id[:12]).id, job.id)

    def test_failed_and_cancelled(self) -> None:
        with self.assertRaises(sc.JobFailed) as failed:
            self.client.submit(["sh", "-c", "exit 7"], cpus=0.1).wait(PATIENCE, check=True)
        self.assertIn("exited with code 7", str(failed.exception))
        job = self.client.submit(["sleep", "1000"], cpus=0.1)
        with self.assertRaises(TimeoutError):
            job.wait(0.2)
        job.cancel("so")
        self.assertEqual(job.wait(PATIENCE).record.state, api.JobState.CANCELLED)

    def test_refused(self) -> None:
        with self.assertRaises(sc.Invalid) as e:
            self.client.submit(["true"], name="a/b")
        self.assertTrue(e.exception.field.endswith("name"), e.exception.field)
        with self.assertRaises(sc.Infeasible):
            self.client.submit(["true"], gpus=64)
        with self.assertRaises(sc.NotFound):
            self.client.job("nobody")
        with self.assertRaises(sc.Unavailable):
            sc.Client("127.0.0.1:1", retry=0).job("x")

    def test_exec(self) -> None:
        job = self.client.submit(["sleep", "1000"], cpus=0.1)
        self.addCleanup(job.cancel)
        for event in self.client.watch(ids=[job.id], present=True, timeout=PATIENCE):
            if event.job is not None and event.job.phase == "running":
                break
        ended = job.exec(["sh", "-c", "cat; echo $A >&2; exit 7"], stdin=b"x" * 1_000_000, env={"A": "b"})
        self.assertEqual((ended.code, len(ended.stdout), ended.stderr), (7, 1_000_000, b"b\n"))
        with self.assertRaises(sc.NotFound):
            job.exec(["true"], rank=3)
        with job.exec_stream(["sleep", "1000"]) as outs:
            self.assertTrue(next(outs).begun)

    def test_watch(self) -> None:
        self.assertTrue(any(e.synced for e in self.client.watch(nodes=True, present=True, timeout=PATIENCE)))
        began = time.monotonic()
        for _ in self.client.watch(nodes=True, timeout=1.0):
            pass
        self.assertLess(time.monotonic() - began, PATIENCE)

    def test_outlives_the_scheduler(self) -> None:
        """A watch and followed output continue after a restart of the scheduler, without loss or duplicates."""
        job = self.client.submit(
            ["sh", "-c", "for i in 0 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.3; done"], cpus=0.1, name="counts"
        )
        wrote, seen = b"", []

        def watch() -> None:
            for event in self.client.watch(ids=[job.id], timeout=PATIENCE):
                seen.append(event.text)
                if event.job is not None and event.job.record.finished_unix_ms:
                    return

        reader = threading.Thread(target=watch, daemon=True)
        reader.start()
        for part in job.logs(follow=True):
            if not wrote:
                with open(RESTART, "w", encoding="utf-8"):
                    pass  # the scheduler is killed, and another one starts
                until = time.monotonic() + PATIENCE
                while os.path.exists(RESTART) and time.monotonic() < until:
                    time.sleep(0.01)
            wrote += part.data
        self.assertEqual(wrote.split(), [b"%d" % i for i in range(10)])
        self.assertEqual(job.wait(PATIENCE, check=True).phase, "succeeded")
        self.assertFalse(os.path.exists(RESTART), "the scheduler was not killed")
        reader.join(PATIENCE)
        self.assertTrue(any("succeeded" in text for text in seen), seen)
        self.assertEqual(len(seen), len(set(seen)), seen)

    def test_who(self) -> None:
        with sc.Client(SERVER, token=OTHER) as ann:
            self.assertEqual(ann.api.who_am_i(api.WhoAmI()).name, "ann")
            mine = ann.submit(["sleep", "1000"], cpus=0.1)
            mine.cancel()
        with sc.Client(SERVER, token=VIEWER) as vera, self.assertRaises(sc.NotAllowed) as e:
            vera.submit(["true"])
        self.assertIn("submit", e.exception.hint)
        with sc.Client(f"unix:{SOCKET}") as here:
            self.assertEqual(here.api.who_am_i(api.WhoAmI()).role, "admin")
            self.assertIn(mine.id, [j.record.id for j in here.jobs()])

    def test_unproved(self) -> None:
        word, cluster, root, secret = OTHER.split(".")
        for token in (
            ".".join((word, cluster, "00" * 32, secret)),
            ".".join((word, "c-other", root, secret)),
        ):
            with self.assertRaises(sc.Unproved):
                sc.Client(SERVER, token=token, retry=0).job("x")
        with self.assertRaises(sc.NotAllowed):
            sc.Client(SERVER, token=".".join((word, cluster, root, "00" * len(secret))), retry=0).job("x")

    def script(self, text: str, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program as a user does: from a file, with the settings in the environment."""
        main = os.path.join(os.environ["SYNAPSE_TEST_FOLDER"], f"main-{len(text)}.py")
        with open(main, "w", encoding="utf-8") as file:
            file.write(text)
        settings = env or {"SYNAPSE_SERVER": SERVER, "SYNAPSE_TLS": TLS}
        return subprocess.run(
            [sys.executable, "-B", main, *words], env={**os.environ, **settings},
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )

    def test_page(self) -> None:
        """The examples of docs/jobs/python.md run as scripts. Only the folder and the account are those of the test."""
        with open(os.environ["SYNAPSE_TEST_PAGE"], encoding="utf-8") as page:
            blocks = re.findall("```python\n(.*?)```", page.read(), re.DOTALL)
        self.assertEqual(len(blocks), 2)
        said = self.script(blocks[0])
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("1 rank 1\n", said.stdout)
        self.assertIn("JOB_STATE_SUCCEEDED", said.stdout)
        text = blocks[1].replace("/shared/runs", os.environ["SYNAPSE_TEST_FOLDER"])
        if os.geteuid() == 0:
            text = text.replace("timeout_min=60", "timeout_min=60, user='root'")
        said = self.script(text)
        self.assertEqual((said.stdout, said.returncode), ("0.9\n[0, 2, 4, 6]\n", 0), said.stderr)

    def test_settings_of_the_command_line(self) -> None:
        """A script finds the cluster by SYNAPSE_CONFIG or by a context, as synapse-cli does."""
        folder = os.environ["SYNAPSE_TEST_FOLDER"]
        config, contexts = os.path.join(folder, "cli.yaml"), os.path.join(folder, "contexts.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"# of the test\nserver: {SERVER}\ntls: '{TLS}'\n")
        with open(contexts, "w", encoding="utf-8") as file:
            file.write(f"current: lab\ncontexts:\n    - name: lab\n      server: {SERVER}\n      tls: {TLS}\n")
        text = "import synapse_client as sc\nprint([n.record.id for n in sc.Client().nodes()])\n"
        for env in ({"SYNAPSE_CONFIG": config}, {"SYNAPSE_CONTEXTS": contexts}):
            os.chmod(contexts, 0o600)
            said = self.script(text, SYNAPSE_SERVER="", SYNAPSE_TLS="", **env)
            self.assertEqual((said.stdout, said.returncode), ("['n1']\n", 0), said.stderr)

    def test_main_is_not_run_again(self) -> None:
        """A main program that submits without a guard gets an error that names the guard, and its task submits nothing."""
        asks = {"cpus": 0.1, "name": "unguarded", **({"user": "root"} if os.geteuid() == 0 else {})}
        text = _ALONE.replace('if __name__ == "__main__":', "if True:")
        text = text.replace("sys.argv[1]", repr(os.environ["SYNAPSE_TEST_FOLDER"]))
        said = self.script(text.replace("json.loads(sys.argv[2])", repr(asks)))
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("below `if __name__ == '__main__':`", said.stderr)
        self.assertEqual(len([j for j in self.client.jobs(name="unguarded")]), 1)

    def test_executor(self) -> None:
        """Functions run in jobs and in elements of an array. Their exceptions are raised in the waiting program."""
        executor = sc.Executor(os.environ["SYNAPSE_TEST_FOLDER"], self.client)
        executor.update_parameters(cpus_per_task=0.1, timeout_min=5, name="functions")
        if os.geteuid() == 0:
            executor.update_parameters(user="root")
        with self.assertRaises(sc.Invalid):
            executor.update_parameters(slurm_no_such=1)
        one, bad = executor.submit(math.hypot, 3, 4), executor.submit(math.sqrt, -1)
        several = executor.map_array(pow, [1, 2, 3], [2, 2, 2])
        self.assertEqual(one.result(PATIENCE), 5.0)
        self.assertTrue(one.done() and one.state == "succeeded")
        with self.assertRaises(sc.FunctionFailed) as e:
            bad.result(PATIENCE)
        self.assertIsInstance(e.exception.__cause__, ValueError)
        self.assertEqual([j.result(PATIENCE) for j in several], [1, 4, 9])
        self.assertEqual(len({j.job_id.split("_")[0] for j in several}), 1)
        executor.update_parameters(nodes=2)
        self.assertEqual(executor.submit(os.getenv, "SYNAPSE_RANK").results(PATIENCE), ["0", "1"])
        killed = executor.submit(os.system, "test $SYNAPSE_RANK = 0 || sleep 60; echo no space left >&2; kill -9 $PPID")
        failed = killed.exception(PATIENCE)
        self.assertIsInstance(failed, sc.JobFailed)
        self.assertIn("\n  stderr of rank 0: no space left", str(failed))

    def test_executor_alone(self) -> None:
        """Without cloudpickle, a job can also call a function of the main program."""
        folder = os.environ["SYNAPSE_TEST_FOLDER"]
        asks = {"cpus": 0.1, **({"user": "root"} if os.geteuid() == 0 else {})}
        said = self.script(_ALONE, folder, json.dumps(asks))
        self.assertEqual((said.stdout, said.returncode), ("42\n", 0), said.stderr)

    def test_async(self) -> None:
        async def several() -> "list[str]":
            async with sc.AsyncClient(SERVER, tls=TLS) as client:
                jobs = await asyncio.gather(*(client.submit(["echo", str(i)], cpus=0.1) for i in range(3)))
                await asyncio.gather(*(asyncio.wait_for(j.wait(check=True), PATIENCE) for j in jobs))
                slow = await client.submit(["sleep", "1000"], cpus=0.1)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(slow.wait(), 0.2)
                await slow.cancel()
                return [p.data.decode() for j in jobs async for p in j.logs() if p.data]

        self.assertEqual(asyncio.run(several()), ["0\n", "1\n", "2\n"])


if __name__ == "__main__":
    unittest.main()
