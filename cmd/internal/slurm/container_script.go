package slurm

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// This file reads the container options of the steps in a script. Some programs write scripts in which
// only the steps name an image. A step cannot have an image of its own, so the job gets the image of its steps.

// stepCall matches a call of srun in a line of a script, and containerWord a container option in it.
var (
	stepCall = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[^#\n]*\bsrun\b[^\n]*$`)
	})
	containerWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`--(container-[a-z]+(?:-[a-z]+)*)(?:=|[ \t]+)("[^"\n]*"|'[^'\n]*'|[^\s"';|&]+)`)
	})
)

// stepContainers adopts the container of the steps in a script, and refuses a script whose steps need different
// containers. A value with a variable is not known, and is accepted if the job has an image.
func (b *Batch) stepContainers(text []byte) error {
	text = bytes.ReplaceAll(text, []byte("\\\n"), []byte("  ")) // a line that continues; keeps the positions
	own := b.container.image != ""
	for _, at := range stepCall().FindAllIndex(text, -1) {
		call := string(text[at[0]:at[1]])
		for _, m := range containerWord().FindAllStringSubmatch(call, -1) {
			option, value := m[1], strings.Trim(m[2], `"'`)
			err := b.stepContainer(option, value, own)
			if r, is := err.(*Refusal); is {
				r.Option = fmt.Sprintf("srun --%s", option)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// stepContainer handles one container option of a step.
func (b *Batch) stepContainer(option, value string, own bool) error {
	unknown := strings.ContainsAny(value, "$`")
	switch {
	case option == "container-image" && unknown && b.container.image == "":
		return refuse("add #SBATCH --container-image=IMAGE to the script",
			"%s: the image of a job must be known at its submit",
			value)
	case option == "container-image" && !unknown:
		image, _, err := ImageOf(value)
		if err != nil {
			return err
		}
		if b.container.image == "" {
			b.warnings = append(b.warnings, "the script and all its steps run in "+image+", the image of its steps")
			b.container.image = image
		}
		if b.container.image != image {
			return refuse("submit a job for each image", "%s: all steps of a job run in its image, %s", value,
				b.container.image)
		}
	case option == "container-mounts" && unknown && !own:
		return refuse("add #SBATCH --container-mounts=… to the script",
			"%s: the mounts of a job must be known at its submit",
			value)
	case option == "container-mounts" && !unknown:
		for one := range strings.SplitSeq(value, ",") {
			if _, err := mountOf(one, "/"); err != nil {
				return err
			}
			if !slices.Contains(b.container.mounts, one) {
				b.container.mounts = append(b.container.mounts, one)
			}
		}
	}
	return nil
}
