package sbatch

import (
	_ "embed"
	"fmt"
	"strings"
)

// This file creates the script of an sbatch job, which contains the user's script. It creates Slurm's output files
// and the programs that a script calls, and runs the user's script on the first node.

//go:embed wrapper.sh
var wrapperText string

// files.sh sets up the files of sbatch.
//
//go:embed files.sh
var filesText string

// srun.sh is the srun of a script. It starts steps on the other nodes with synapse-exec.
//
//go:embed srun.sh
var srunBare string

// list.sh expands node lists in the other programs.
//
//go:embed list.sh
var listText string

func srunText() string {
	return strings.NewReplacer("@LIST@\n", listText, "@VERSION@", Version).Replace(srunBare)
}

// job.sh is the scontrol, squeue and scancel of a script.
//
//go:embed job.sh
var jobBare string

func jobText() string { return strings.ReplaceAll(jobBare, "@LIST@\n", listText) }

// sbcast.sh is the sbcast of a script.
//
//go:embed sbcast.sh
var sbcastText string

// heredoc ends the contained script. A script with this line is refused.
const heredoc = "SYNAPSE_SBATCH_SCRIPT_ENDS_HERE"

// wrapper returns the script of the job.
func wrapper(text []byte, files string) ([]byte, error) {
	inside := string(text)
	if strings.Contains(inside, heredoc) {
		return nil, &Refusal{Option: "the script", Text: "contains the reserved words " + heredoc}
	}
	if !strings.HasSuffix(inside, "\n") {
		inside += "\n"
	}
	return []byte(strings.NewReplacer("@FILES@\n", files, "@ENDS@", heredoc, "@SCRIPT@", inside, "@SRUN@", srunText(),
		"@JOB@", jobText(), "@SBCAST@", sbcastText).Replace(wrapperText)), nil
}

// Files returns the shell code that redirects the script's output to Slurm's files.
func (b *Plain) Files(array bool) (string, error) {
	usual := "slurm-%j.out"
	if array {
		usual = "slurm-%A_%a.out"
	}
	output, err := b.Pattern("--output", orDefault(b.Output, usual))
	if err != nil {
		return "", err
	}
	errs, err := b.Pattern("--error", b.Errors)
	if err != nil {
		return "", err
	}
	how := ">"
	if b.Appends {
		how = ">>"
	}
	return strings.NewReplacer("@OUTPUT@", output, "@ERROR@", errs, "@HOW@", how).Replace(filesText), nil
}

// patterns maps Slurm's placeholders in file names to shell expressions on the first node.
var patterns = map[byte]string{
	'j': "SLURM_JOB_ID", 'J': "SLURM_JOB_ID", 'A': "job", 'a': "element", 'N': "SYNAPSE_NODE", 'n': "zero", 't': "zero",
	's': "batch",
	'x': "SLURM_JOB_NAME", 'u': "user",
}

// Pattern converts a file name into a shell word.
func (b *Plain) Pattern(flag, name string) (string, error) {
	var word strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			word.WriteString(quoted(name[i : i+1]))
			continue
		}
		from := i + 1
		for i++; i < len(name) && name[i] >= '0' && name[i] <= '9'; i++ {
		}
		if i == len(name) {
			return "", &Refusal{Option: flag, Text: fmt.Sprintf("%q ends with %%", name)}
		}
		variable, known := patterns[name[i]]
		switch width := name[from:i]; {
		case name[i] == '%' && width == "":
			word.WriteString("%")
		case !known:
			return "", &Refusal{Option: flag, Text: fmt.Sprintf("unknown placeholder %%%c", name[i]),
				Hint: "use %j, %A, %a, %x, %N, %t, %n, %u, %s and %%"}
		case width != "" && strings.IndexByte("jJAant", name[i]) >= 0 && len(width) < 3:
			fmt.Fprintf(&word, `"$(printf '%%0%sd' "$%s")"`, strings.TrimLeft(width, "0"), variable)
		default:
			fmt.Fprintf(&word, `"$%s"`, variable)
		}
	}
	if word.Len() == 0 {
		return "''", nil
	}
	return word.String(), nil
}

// quoted escapes a byte for a shell.
func quoted(b string) string {
	if strings.Contains("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-", b) {
		return b
	}
	if b == "'" {
		return `"'"`
	}
	return "'" + b + "'"
}
