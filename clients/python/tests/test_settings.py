"""Tests of the client without a cluster: its settings, and commands that are not lists."""

from __future__ import annotations

import os
import tempfile
import unittest

import synapse_client as sc
from synapse_client import settings


class SettingsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    def test_sources(self) -> None:
        """Arguments override the environment, the environment overrides the file, and all override the current context."""
        config = self.file("cli.yaml", "# a comment\nserver: far:9000   # the head\ntls: \"/keys/of me\"\nretry: 1m\n")
        contexts = self.file(
            "contexts.yaml",
            "current: lab\ncontexts:\n    - name: home\n      server: home:1\n      token: synapselogin1.a.b.c\n"
            "    - name: lab\n      server: 'lab:2'\n      tls: /lab\n",
        )
        env = {"SYNAPSE_CONTEXTS": contexts}
        found = settings.find(environ=env)
        self.assertEqual((found.server, found.tls, found.token), ("lab:2", "/lab", ""))
        found = settings.find(context="home", environ=env)
        self.assertEqual((found.server, found.tls, found.token), ("home:1", "", "synapselogin1.a.b.c"))
        env["SYNAPSE_CONFIG"] = config
        found = settings.find(environ=env)
        self.assertEqual((found.server, found.tls, found.retry), ("far:9000", "/keys/of me", 60.0))
        env["SYNAPSE_SERVER"] = "near:9000"
        self.assertEqual(settings.find(environ=env).server, "near:9000")
        found = settings.find("here:9000", token="t", environ=env)
        self.assertEqual((found.server, found.tls, found.token), ("here:9000", "", "t"))
        env["SYNAPSE_CONTEXT"] = "home"
        self.assertEqual(settings.find(environ=env).server, "home:1")
        self.assertEqual(settings.find(environ={"SYNAPSE_RETRY": "0"}).retry, 0.0)

    def test_mistakes(self) -> None:
        """An invalid file is refused with its line, and without its values."""
        bad = self.file("bad.yaml", "server: a:1\nsecret token\n")
        unknown = self.file("unknown.yaml", "sever: a:1\n")
        contexts = self.file("contexts.yaml", "contexts:\n    - name: lab\n      server: lab:2\n")
        for env, want in (
            ({"SYNAPSE_CONFIG": bad}, "bad.yaml:2: not a line `key: value`"),
            ({"SYNAPSE_CONFIG": unknown}, "unknown setting 'sever' (use server"),
            ({"SYNAPSE_CONFIG": os.path.join(self.folder, "no")}, "No such file"),
            ({"SYNAPSE_CONTEXTS": contexts, "SYNAPSE_CONTEXT": "moon"}, "unknown context 'moon' (use lab)"),
            ({"SYNAPSE_RETRY": "soon"}, "'soon' is not a duration"),
        ):
            with self.assertRaises(sc.Invalid) as e:
                settings.find(environ=env)
            self.assertIn(want, str(e.exception))
            self.assertNotIn("secret", str(e.exception))
        os.chmod(contexts, 0o644)
        with self.assertRaises(sc.Invalid) as e:
            settings.find(environ={"SYNAPSE_CONTEXTS": contexts})
        self.assertIn("readable by other users", str(e.exception))

    def test_text_is_no_command(self) -> None:
        """A command line as one text is refused. Its letters would be the words."""
        with self.assertRaises(TypeError) as e:
            sc.Client("127.0.0.1:1").submit("ls -la 'a b'")
        self.assertIn("write ['ls', '-la', 'a b'], or ['sh', '-c', \"ls -la 'a b'\"]", str(e.exception))
        with self.assertRaises(TypeError):
            sc.spec(b"ls")


if __name__ == "__main__":
    unittest.main()
