package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements scripts: `submit [flags] train.sh args...` sends the file. Arguments after its name belong
// to the script, as in Slurm.

// script is the file that a submit sends.
type script struct {
	file string   // - is standard input
	args []string // arguments after the file
	flag string   // a given flag that only a script on standard input can have
}

// isScript reports whether an argument is the name of a script.
func isScript(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, 2)
	_, err = io.ReadFull(file, head)
	return err == nil && messages.IsScript(head)
}

// stopAtScript ends the parsing of flags at a script's name, because later arguments belong to the script. A first
// pass finds the name without changing flags, because flags that are parsed twice would count twice.
func (a *app) stopAtScript(root *cobra.Command, args []string) {
	if !slices.ContainsFunc(args, isScript) {
		return
	}
	look, rest, err := (&app{name: a.name}).root().Find(args)
	if err != nil || look.Name() != "submit" {
		return
	}
	look.Flags().SetInterspersed(false)
	if look.ParseFlags(rest) != nil || look.Flags().NArg() == 0 || look.ArgsLenAtDash() >= 0 ||
		!isScript(look.Flags().Arg(0)) {
		return
	}
	if c, _, err := root.Find(args); err == nil {
		c.Flags().SetInterspersed(false)
	}
}

// isStream reports whether a file is standard input or a pipe, which can be read only once.
func isStream(name string) bool {
	info, err := os.Stat(name)
	return name == "-" || err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// scriptOf returns the script among the arguments, if any: a file that begins with #!, or a stream that cannot be a
// job file because of its flags or arguments.
func scriptOf(files, command []string, flag string) *script {
	if len(files) == 0 {
		return nil
	}
	rest := slices.Concat(files[1:], command)
	if isScript(files[0]) || isStream(files[0]) && (flag != "" || len(rest) > 0) {
		return &script{file: files[0], args: rest, flag: flag}
	}
	return nil
}

// made returns the script with this text. It refuses a text that no node would run as intended.
func (s *script) made(name string, text []byte) (*messages.Script, error) {
	switch {
	case !messages.IsScript(text) && s.flag != "":
		return nil, exit.Hint("write the value into the file", "%s cannot be combined with a file or --from", s.flag)
	case !messages.IsScript(text):
		return nil, exit.Hint("start a script with a #! line, such as #!/bin/sh",
			"%s is not a script: arguments need a script",
			name)
	}
	made, err := messages.NewScript(fileName(s.file), text)
	if field := (*messages.FieldError)(nil); errors.As(err, &field) {
		return nil, exit.Hint(field.Hint, "%s %s", name, field.Text)
	}
	made.Args = s.args
	return made, err
}

// fileName returns the name of the script in tasks.
func fileName(file string) string {
	if isStream(file) {
		return messages.DefaultScriptName
	}
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, filepath.Base(file))
	name = strings.TrimLeft(name, ".-")
	if name = name[:min(len(name), messages.MaxScriptNameBytes)]; name == "" || name == "hostfile" {
		return messages.DefaultScriptName
	}
	return name
}

// warn lists the directives for other schedulers in the script, which are ignored.
func (a *app) warn(s *script, name string, text []byte) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(bytes.TrimSpace(line)) > 0 && line[0] != '#' {
			break // as in Slurm, only lines before the first command count
		}
		if words, is := bytes.CutPrefix(line, []byte("#SBATCH")); is && len(words) > 0 && (words[0] == ' ' ||
			words[0] == '\t') {
			a.say("%s: %s:%d: #SBATCH %s is ignored: %s", a.name, name, i+1, bytes.TrimSpace(words),
				sbatch(string(words)))
		}
	}
	for _, arg := range s.args {
		if flag, _, _ := strings.Cut(arg, "="); slices.Contains(ours, flag) {
			a.say("%s: %s is passed to the script; write flags of submit before the script's name", a.name, arg)
		}
	}
}

// ours lists flags of submit that users often put after a script by mistake.
var ours = []string{"--attach", "--wait", "--dry-run", "--image", "--gpus", "--gpu", "--replicas", "--help", "-h"}

// sbatch returns the flags for an #SBATCH line.
func sbatch(line string) string {
	var flags, other []string
	words := strings.Fields(line)
	for i := 0; i < len(words) && !strings.HasPrefix(words[i], "#"); i++ {
		option, value, has := strings.Cut(words[i], "=")
		if !strings.HasPrefix(option, "-") {
			continue
		}
		if short := option[1:]; !strings.HasPrefix(option, "--") && len(short) > 1 {
			option, value, has = option[:2], short[1:], true
		}
		if !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			value = words[i+1]
		}
		known, is := sbatchFlags[option]
		switch {
		case !is:
			other = append(other, option+" has no equivalent")
		case strings.HasPrefix(known, "-"):
			flags = append(flags, strings.ReplaceAll(known, "VALUE", valueHere(known, value)))
		default:
			other = append(other, option+": "+known)
		}
	}
	switch text := strings.Join(flags, " "); {
	case text != "":
		return strings.Join(append([]string{"use " + text}, other...), "; ")
	case len(other) > 0:
		return strings.Join(other, "; ")
	}
	return "use flags of submit"
}

// valueHere converts a value of Slurm for a flag here. In Slurm, a bare number is minutes, memory is in mebibytes,
// and a resource has its name before its number.
func valueHere(flag, value string) string {
	_, failed := strconv.ParseUint(value, 10, 32)
	number := failed == nil
	switch name, _, _ := strings.Cut(flag, " "); {
	case name == "-t" && number:
		return value + "m"
	case name == "-t" && strings.Count(value, ":") == 1 && !strings.Contains(value, "-"):
		return "0:" + value
	case name == "--mem" && number:
		return value + "Mi"
	case name == "--mem" && value != "":
		bare := strings.TrimRight(value, "BbiI")
		return bare[:max(len(bare)-1, 0)] + strings.ToUpper(bare[max(len(bare)-1, 0):]) + "i"
	case name == "--name":
		if messages.Titled(value) {
			return value
		}
		return cmp.Or(messages.NameOf(value), value)
	case strings.HasPrefix(name, "--gpu") && strings.Contains(value, ":"):
		kind, count, typed := strings.Cut(strings.TrimPrefix(value, "gpu:"), ":")
		if !typed {
			return kind
		}
		return count + " --gpu-type " + strings.ToLower(kind)
	}
	return value
}

// sbatchFlags maps Slurm's options to flags, or to other instructions.
var sbatchFlags = map[string]string{
	"-N": "-N VALUE", "--nodes": "-N VALUE", "-n": "-n VALUE", "--ntasks": "-n VALUE", "-c": "-c VALUE",
	"--cpus-per-task": "-c VALUE",
	"-G":              "--gpus VALUE", "--gpus": "--gpus VALUE",
	"--gpus-per-node": "--gpu VALUE (per node, with -N)",
	"--gpus-per-task": "--gpus-per-task VALUE",
	"--gres":          "--gpu VALUE (per node, with -N)",
	"--mem":           "--mem VALUE (per task, with -n or -N)", "-t": "-t VALUE", "--time": "-t VALUE",
	"-J": "--name VALUE", "--job-name": "--name VALUE", "-p": "--queue VALUE", "--partition": "--queue VALUE",
	"-w": "-w VALUE", "--nodelist": "-w VALUE", "-x": "-x VALUE", "--exclude": "-x VALUE",
	"-C":           "--node-selector KEY=VALUE",
	"--constraint": "--node-selector KEY=VALUE", "-D": "--workdir VALUE", "--chdir": "--workdir VALUE",
	"--requeue": "--restarts 3", "--no-requeue": "--restarts never",
	"--export": "-e NAME for each", "-W": "--wait", "--wait": "--wait", "-H": "--hold",
	"--hold": "--hold",
	"-o":     "`logs JOB` shows the output", "--output": "`logs JOB` shows the output",
	"-e":      "`logs JOB` shows the output",
	"--error": "`logs JOB` shows the output", "-a": "-a VALUE", "--array": "-a VALUE",
	"-b": "-b VALUE, as 08:00 or now+2h", "--begin": "-b VALUE, as 08:00 or now+2h",
	"--ntasks-per-node": "use -N: each node runs one task; request the GPUs of all of them",
}

// fetched adds the texts of scripts to jobs that are printed completely or submitted again. It reports a text that
// cannot be read, and leaves it out.
func (a *app) fetched(ctx context.Context, c *client.Client, jobs ...*messages.JobStatus) {
	if a.style.Format != "json" && a.style.Format != "yaml" {
		return
	}
	texts := map[string][]byte{}
	for _, j := range jobs {
		s := j.GetRecord().GetSpec().GetScript()
		if s == nil {
			continue
		}
		text, known := texts[s.Digest]
		if !known {
			var err error
			if text, err = c.Script(ctx, s); err != nil {
				a.say("%s: job %s: script not shown: %s", a.name, j.GetRecord().GetId(), err)
			}
			texts[s.Digest] = text
		}
		s.Text = text
	}
}
