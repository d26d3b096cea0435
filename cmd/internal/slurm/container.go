package slurm

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file converts the container options of pyxis into the image and the mounts of a job. The job has one
// container on each of its nodes. The script and all its steps run in this container.

// container holds the container options.
type container struct {
	image, workdir, name string
	mounts, env          []string
	home                 bool
}

// containerOptions returns the options of pyxis.
func containerOptions() []option {
	all := []option{
		{"container-image", "", "", setImage},
		{"container-mounts", "", "", setMounts},
		{"container-workdir", "", "", setContainerWorkdir},
		{"container-env", "", "", setContainerEnv},
		{"container-name", "", "", setContainerName},
		{"container-mount-home", "", "yes", setContainerHome(true)},
		{"no-container-mount-home", "", "yes", setContainerHome(false)},
		{"container-writable", "", "yes", common(sbatch.None)}, {"no-container-remap-root", "", "yes", common(sbatch.None)},
		{"no-container-entrypoint", "", "yes", common(sbatch.None)},
	}
	for long, why := range map[string]string{ //order: each is independent
		"container-readonly":   "the files of the image are never changed; mount folders with :ro",
		"container-remap-root": "set `user: root` in a job file: synapse-cli submit",
		"container-entrypoint": "call the entrypoint of the image in the script",
	} {
		all = append(all, option{long, "", "yes", never(why)})
	}
	return append(all, option{"container-save", "", "", never("build the image with a builder of images")})
}

// ofContainers lists the container options that need an image.
var ofContainers = []string{"container-mounts", "container-workdir", "container-env", "container-name",
	"container-mount-home"}

func setImage(b *Batch, value string) (err error) {
	image, user, err := ImageOf(value)
	if err != nil {
		return err
	}
	if warning := "the user name of --container-image has no effect: nodes have the credentials of registries"; user !=
		"" && !slices.Contains(b.warnings, warning) {
		b.warnings = append(b.warnings, warning)
	}
	b.container.image = image
	return nil
}

// imageName matches the name of an image of a registry.
var imageName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?` + // the registry
		`[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*` +
		`(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$`)
})

// ImageOf converts the name of an image in the form of pyxis and enroot: a path, or
// [docker://][USER@][REGISTRY#]IMAGE[:TAG]. user is the user name of the form, which has no effect.
func ImageOf(value string) (image, user string, err error) {
	const forms = "write [docker://][REGISTRY#]IMAGE[:TAG], or the path of a .sqsh file, a .tar archive or a folder"
	scheme, rest, has := strings.Cut(value, "://")
	switch {
	case value == "":
		return "", "", refuse(forms, "is empty")
	case has && (scheme == "dockerd" || scheme == "podman"):
		return "", "", refuse("push the image to a registry, or save it as a .tar archive",
			"%s: nodes cannot read the images of a local daemon", value)
	case has && scheme != "docker":
		return "", "", refuse(forms, "%s: unknown scheme %s://", value, scheme)
	case !has && (strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../")):
		return value, "", nil
	case !has && (strings.HasSuffix(value, ".sqsh") || strings.HasSuffix(value, ".tar")):
		return "", "", refuse("write ./"+value, "%s: a path begins with / or ./", value)
	case !has:
		rest = value
	}
	registry, name, split := strings.Cut(rest, "#")
	if !split {
		registry, name = "", rest
		if before, after, is := strings.Cut(rest, "@"); is && !strings.HasPrefix(after, "sha256:") {
			user, name = before, after
		}
	} else if at := strings.LastIndexByte(registry, '@'); at >= 0 {
		user, registry = registry[:at], registry[at+1:]
	}
	image = name
	if registry != "" {
		image = registry + "/" + name
	}
	if !imageName().MatchString(image) || split && registry == "" || image == messages.HostImage {
		return "", "", refuse(forms, "%s is not the name of an image", value)
	}
	return image, user, nil
}

func setMounts(b *Batch, value string) error {
	for one := range strings.SplitSeq(value, ",") {
		if _, err := mountOf(one, "/"); err != nil {
			return err
		}
		b.container.mounts = append(b.container.mounts, one)
	}
	return nil
}

// mountOf converts a mount in the form SRC[:DST[:FLAGS]]. A relative SRC is relative to a folder.
func mountOf(text, here string) (*messages.Mount, error) {
	parts := strings.Split(text, ":")
	m := &messages.Mount{Source: parts[0], Target: parts[0]}
	if len(parts) > 1 {
		m.Target = parts[1]
	}
	switch {
	case m.Source == "" || len(parts) > 3:
		return nil, refuse("write SRC:DST, or SRC:DST:ro", "%q is not a mount", text)
	case !path.IsAbs(m.Target):
		return nil, refuse("write SRC:DST with an absolute path DST",
			"%q: the path in the container is not absolute", text)
	}
	if !path.IsAbs(m.Source) {
		m.Source = path.Join(here, m.Source)
	}
	if len(parts) == 3 {
		for flag := range strings.SplitSeq(parts[2], "+") {
			switch flag {
			case "ro":
				m.ReadOnly = true
			case "rw", "bind", "rbind", "private", "rprivate":
			default:
				return nil, refuse("use ro or rw", "%q: unsupported flag %s", text, flag)
			}
		}
	}
	return m, nil
}

func setContainerWorkdir(b *Batch, value string) error {
	if !path.IsAbs(value) {
		return refuse("use an absolute path", "%q is a relative path", value)
	}
	b.container.workdir = value
	return nil
}

func setContainerEnv(b *Batch, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if name == "" || strings.ContainsAny(name, "= ") {
			return refuse("write NAME,NAME", "%q is not the name of a variable", name)
		}
		b.container.env = append(b.container.env, name)
	}
	return nil
}

// setContainerName accepts a name for a container that the job creates.
func setContainerName(b *Batch, value string) error {
	if b.container.name = value; value == "" {
		return refuse("give it a name", "is empty")
	}
	return pass("--container-name")(b, value)
}

func setContainerHome(home bool) setter {
	return func(b *Batch, _ string) error {
		b.container.home = home
		return nil
	}
}

// checkContainer refuses container options without an image.
func (b *Batch) checkContainer() error {
	for _, long := range ofContainers {
		if b.Given[long] && b.container.image == "" {
			return &Refusal{Option: "--" + long, Text: "needs --container-image",
				Hint: "containers are not kept after their job"}
		}
	}
	return nil
}

// contain changes a job so that it runs in the container.
func (b *Batch) contain(spec *messages.JobSpec, from Submitter) error {
	if err := b.checkContainer(); err != nil || b.container.image == "" {
		return err
	}
	if spec.Image = b.container.image; strings.HasPrefix(spec.Image, ".") {
		spec.Image = path.Join(from.Dir, spec.Image)
	}
	spec.Workdir, spec.SubmitDir = cmp.Or(b.container.workdir, b.Workdir(from.Dir)), ""
	mounts := slices.Clone(b.container.mounts)
	if b.container.home {
		home := valueOf("HOME", from.Env)
		if home == "" {
			return &Refusal{Option: "--container-mount-home", Text: "the variable HOME is not set"}
		}
		mounts = append(mounts, home)
	}
	for _, text := range append(mounts, b.outside(from)...) {
		m, err := mountOf(text, from.Dir)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(spec.Mounts, func(o *messages.Mount) bool { return o.GetTarget() == m.GetTarget() }) {
			spec.Mounts = append(spec.Mounts, m)
		}
	}
	return nil
}

func valueOf(name string, env []string) string {
	for _, entry := range env {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}

// outsideFiles makes the names of the output files absolute. Slurm writes these files outside of the container,
// relative to the folder of the submit.
func (b *Batch) outsideFiles(from Submitter) {
	if b.container.image == "" {
		return
	}
	for _, name := range []*string{&b.Output, &b.Errors} {
		if *name != "" && !path.IsAbs(*name) {
			*name = path.Join(cmp.Or(b.Workdir(from.Dir), from.Dir), *name)
		}
	}
	if b.Output == "" {
		usual := "slurm-%j.out"
		if b.array != nil {
			usual = "slurm-%A_%a.out"
		}
		b.Output = path.Join(cmp.Or(b.Workdir(from.Dir), from.Dir), usual)
	}
}

// private lists folders that each container has by itself, so that they are not mounted for an output file.
var private = []string{"/", "/dev", "/proc", "/sys", "/tmp", "/var/tmp", "/run"}

// outside returns the folders of the output files, which the container sees under the same path. The part of a path
// from the first placeholder on is not known.
func (b *Batch) outside(from Submitter) (folders []string) {
	if b.program != forSbatch {
		return nil
	}
	for _, name := range []string{b.Output, b.Errors} {
		name, _, _ = strings.Cut(name, "%")
		folder := path.Dir(name + "x")
		if name != "" && !slices.Contains(private, folder) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// ofHosts lists variables that describe programs and libraries of the submit host. An image has its own, so they are
// exported to a container only if they are named.
var ofHosts = []string{"PATH", "HOME", "SHELL", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "MANPATH",
	"PKG_CONFIG_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE",
	"CONDA_PYTHON_EXE", "CONDA_SHLVL", "CUDA_HOME", "MODULEPATH", "MODULESHOME", "LOADEDMODULES", "BASH_ENV", "ENV"}

// ownInContainer removes such variables from those that a container gets.
func (b *Batch) ownInContainer(set map[string]string, env []string) {
	if b.container.image == "" {
		return
	}
	exports := strings.Split(b.Export, ",")
	for _, name := range ofHosts {
		byName := slices.ContainsFunc(exports, func(one string) bool {
			key, _, _ := strings.Cut(one, "=")
			return key == name
		})
		if !byName && !slices.Contains(b.container.env, name) {
			delete(set, name)
		}
	}
	for _, name := range b.container.env { // in addition to those of --export
		if value := valueOf(name, env); value != "" {
			set[name] = value
		}
	}
}
