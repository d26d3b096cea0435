//go:build linux

package carapace

// The container's root, as the starter's thread builds it around init. The order is what makes it safe:
//
//  1. Nothing of ours may reach the machine's mounts: all become private.
//  2. Everything that is to be shown from the machine is taken as a detached mount, while the machine's paths still
//     mean what the caller meant.
//  3. The root is built on a tmpfs of ours: a rootfs, or the host view.
//  4. pivot_root and chroot into the container's root. From here on no path leads out, whatever links the image has,
//     so the rest is mounted by the image's own paths. Meanwhile init lets go of the machine's root; before that no
//     command runs.
//
// The container's root lies one level below the namespace's, so that the task is in a chroot. The kernel makes no
// user namespace for a process in one, by whichever system call: a filter cannot see the flags of clone3.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace/fork"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
)

const (
	scratchTarget = "/scratch"
	namesTarget   = "/etc/resolv.conf"

	hostsTarget    = "/etc/hosts"
	hostfileTarget = "/job/hostfile"
	helperTarget   = scratchTarget + "/.synapse/synapse-exec"
	systemDirs     = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
)

// root builds one.
type root struct {
	spec   *Spec
	order  *order
	init   *fork.Process
	spaces *spaces // of a container with numbers of its own; nil: it has those of the machine

	mounts   []shown         // of the spec, with the scratch directory
	own      map[uint64]bool // the mounts that were made for this container alone
	composed bool            // another program makes a container of it
	devices  []shown         // nodes to bind where we may not make any
	views    map[string]int
	proc     int
	sysfs    int
	blank    int // an empty directory, once one was needed
}

// shown is a detached mount and where it goes.
type shown struct {
	tree      int
	target    string
	directory bool
}

func (r *root) build() error {
	defer func() {
		if r.blank > 0 {
			unix.Close(r.blank)
		}
	}()
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fault.OfMachine(fmt.Errorf("make mounts private: %w", err))
	}
	for _, step := range []func() error{
		r.takeMounts, own(r.takeDevices), own(r.takeViews), own(r.takeSystem), r.makeBase, own(r.enter), r.mountSystem,
		r.mountDev, r.mountTemporary, r.hide, r.placeMounts,
		r.placeSecrets, r.guard,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// takeMounts takes the spec's mounts from the machine.
func (r *root) takeMounts() error {
	wanted := slices.Clone(r.spec.Mounts)
	for _, own := range []Mount{
		{Source: r.spec.Names, Target: namesTarget}, {Source: r.spec.Hosts, Target: hostsTarget},
		{Source: r.spec.Hostfile, Target: hostfileTarget},
	} {
		if own.ReadOnly = true; own.Source != "" {
			wanted = append([]Mount{own}, wanted...)
		}
	}
	if r.spec.Scratch != "" {
		wanted = append(wanted, Mount{Source: r.spec.Scratch, Target: scratchTarget})
		if r.spec.Helper != "" {
			wanted = append(wanted, Mount{Source: r.spec.Helper, Target: helperTarget, ReadOnly: true})
		}
	}
	for _, mount := range wanted {
		tree, err := r.take(mount)
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Fstat(tree, &stat); err != nil {
			return fmt.Errorf("mount for %s: %w", mount.Target, err)
		}
		r.mounts = append(r.mounts, shown{tree, filepath.Clean(mount.Target), stat.Mode&unix.S_IFMT == unix.S_IFDIR})
	}
	return nil
}

// take answers a mount's source, detached. What a job names goes through the door; a caller's own path is taken as it
// is.
func (r *root) take(mount Mount) (int, error) {
	if mount.Named != nil {
		tree, err := mount.Named.Clone(mount.ReadOnly)
		if err == nil && mount.Named.Held == 0 { // Whoever handed it on has done this.
			err = r.mapPlain(tree)
		}
		return tree, err
	}
	if err := r.refuseHidden(mount.Source); err != nil {
		return -1, err
	}
	tree, err := cloneTree(mount.Source)
	if err != nil {
		return -1, err
	}
	attributes := uint64(unix.MOUNT_ATTR_NOSUID)
	if !r.order.Rootless {
		attributes |= unix.MOUNT_ATTR_NODEV // Devices are granted one by one, never by way of a directory.
	}
	if mount.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if err := setAttributes(tree, attributes, unix.AT_RECURSIVE); err != nil {
		return -1, fmt.Errorf("mount %s: %w", mount.Source, err)
	}
	if mount.ReadOnly {
		return tree, nil // The caller's own, for all to read: nobody owns anything in it.
	}
	return tree, r.mapPlain(tree)
}

// mapPlain has a directory of the machine's know the container's root as one plain user.
func (r *root) mapPlain(tree int) error {
	if r.spaces == nil {
		return nil
	}
	return mapMount(tree, r.spaces.machine)
}

// belongs are the options of a tmpfs that the container's root owns.
func (r *root) belongs(options ...string) []string {
	if r.spec.IDs == nil {
		return options
	}
	first := strconv.FormatUint(uint64(r.spec.IDs.First), 10)
	return append(options, "uid="+first, "gid="+first)
}

// refuseHidden keeps a mount from showing what the caller hides: neither it, nor what is above it. Scratch
// directories may lie within (the caller made them), hence only mounts of the spec come here with a path of a
// user's choice.
func (r *root) refuseHidden(source string) error {
	if slices.Contains([]string{r.spec.Scratch, r.spec.Names, r.spec.Hosts, r.spec.Hostfile, r.spec.Helper}, source) {
		return nil
	}
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", source, err)
	}
	if hidden, ok := shows(real, r.spec.Hide); ok {
		return fmt.Errorf("mount %s: %s is hidden from tasks; mount a directory beside it", source, hidden)
	}
	return nil
}

// shows reports whether a path, which leads through no link, shows one of those that are to be hidden: it lies in
// one, or around it.
func shows(path string, hide []string) (hidden string, ok bool) {
	for _, hidden := range hide {
		if resolved, err := filepath.EvalSymlinks(hidden); err == nil {
			hidden = resolved
		}
		if Within(path, hidden) || Within(hidden, path) {
			return hidden, true
		}
	}
	return "", false
}

// Within reports whether a path is a folder or lies below it.
func Within(path, folder string) bool {
	folder, path = filepath.Clean(folder), filepath.Clean(path)
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// takeDevices takes the machine's device nodes where we are not allowed to make some.
func (r *root) takeDevices() error {
	if !r.order.Rootless {
		return nil
	}
	paths := slices.Clone(r.spec.Devices)
	for _, plain := range plainDevices {
		paths = append(paths, plain.path)
	}
	for _, path := range paths {
		tree, err := cloneTree(path)
		if err != nil {
			return err
		}
		r.devices = append(r.devices, shown{tree, path, false})
	}
	return nil
}

// takeViews takes the container's own cgroups, so that a task can read its limits where programs look for them.
func (r *root) takeViews() error {
	r.views = map[string]int{}
	if r.order.Rootless {
		return nil
	}
	for controller, leaf := range r.order.Views {
		view, err := cloneTree(leaf)
		if err != nil {
			return err
		}
		if err := setAttributes(view, systemDirs|unix.MOUNT_ATTR_RDONLY, 0); err != nil {
			return err
		}
		r.views[controller] = view
	}
	return nil
}

// takeSystem has the mounts of /proc and /sys. Without root the kernel allows their making only while the machine's
// own are in sight. The proc is that of init's pid namespace, so init makes it.
func (r *root) takeSystem() (err error) {
	if r.proc, err = r.init.Proc(); err != nil {
		return r.order.explain(err)
	}
	if !r.order.Rootless {
		r.sysfs, err = newMount("sysfs", systemDirs|unix.MOUNT_ATTR_RDONLY)
		return err
	}
	// A sysfs belongs to the owner of the network, which we are not: the machine's is all there is.
	if r.sysfs, err = cloneTree("/sys"); err != nil {
		return err
	}
	return setReadOnly(r.sysfs, unix.AT_RECURSIVE)
}

// makeBase mounts the tmpfs that the namespace's root is on, and the container's root below it.
func (r *root) makeBase() error {
	base, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "source=carapace", "mode=0755", "size=1m")
	if err != nil {
		return err
	}
	r.owns(base)
	if err := attachAt(base, r.order.Base); err != nil {
		return err
	}
	top := filepath.Join(r.order.Base, "root")
	if err := os.Mkdir(top, 0o755); err != nil {
		return err
	}
	if err := r.makeNodesFolder(); err != nil {
		return err
	}
	if r.spec.Rootfs == hostRootfs {
		if err := r.nameUser("/"); err != nil {
			return err
		}
		return r.viewHost(top)
	}
	if err := r.bindRootfs(top); err != nil {
		return err
	}
	return r.nameUser(top)
}

// owns notes a mount in which anything may be made, because no other task and nothing of the machine's is in it.
func (r *root) owns(mount int) {
	if r.own == nil {
		r.own = map[uint64]bool{}
	}
	r.own[hostpath.MountID(mount)] = true
}

// inside is the finished root as the task's user may change it.
func (r *root) inside() (hostpath.Inside, error) {
	who, err := lookUp(r.spec.User, r.spec.Groups)
	return insideOf(r.order, r.own, who), err
}

// insideOf is a finished root, as the machine knows its users.
func insideOf(order *order, own map[uint64]bool, who account) hostpath.Inside {
	ids := order.Spec.IDs
	guest := hostpath.Guest{UID: ids.outside(who.uid), GID: ids.outside(who.gid), Self: order.Rootless}
	for _, group := range who.groups {
		guest.Groups = append(guest.Groups, ids.outside(int(group)))
	}
	return hostpath.Inside{As: guest, Own: own, Root: ids.outside(0)}
}

// enter makes the tmpfs the root of the namespace, and goes into that of the container. The machine's root is
// stacked upon the tmpfs then, so that no directory is needed to put it. Init lets go of it meanwhile: the kernel
// waits for every processor there, which on a busy machine takes longer than all the rest. The working directory,
// by which alone the machine's root can still be named, stays where it is, and every path is an absolute one.
func (r *root) enter() error {
	if err := unix.Chdir(r.order.Base); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := r.init.Pivoted(); err != nil {
		return fmt.Errorf("word to init: %w", err)
	}
	if err := unix.Chroot("root"); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return nil
}

// mountSystem puts /proc and /sys in place.
func (r *root) mountSystem() error {
	if err := mountPlain(r.proc, nil, "/proc"); err != nil {
		return err
	}
	if err := mountPlain(r.sysfs, nil, "/sys"); err != nil {
		return err
	}
	return r.showCgroups()
}

func (r *root) showCgroups() error {
	const folder = "/sys/fs/cgroup"
	if len(r.views) == 0 {
		return nil
	}
	if _, err := os.Stat(folder); err != nil {
		return nil // A kernel that has cgroups elsewhere; nobody looks for them there.
	}
	if view, unified := r.views[""]; unified {
		return attachAt(view, folder)
	}
	top, err := newMount("tmpfs", systemDirs, "mode=0755", "size=64k")
	if err != nil {
		return err
	}
	if err := attachAt(top, folder); err != nil {
		return err
	}
	for controller, view := range r.views {
		name := filepath.Join(folder, controller)
		if err := os.Mkdir(name, 0o555); err != nil {
			return err
		}
		if err := attachAt(view, name); err != nil {
			return err
		}
	}
	return nil
}

// mountTemporary gives a root that cannot be written to the places every program writes to.
func (r *root) mountTemporary() error {
	folders := []struct{ path, mode string }{{"/tmp", "1777"}, {"/run", "0755"}, {"/var/tmp", "1777"}}
	if r.spec.Rootfs == hostRootfs {
		folders = append(folders, struct{ path, mode string }{"/root", "0700"})
	} else if !r.spec.ReadOnly {
		return nil
	}
	for _, folder := range folders {
		if _, err := os.Lstat(folder.path); errors.Is(err, os.ErrNotExist) {
			continue // An image without it has no program that wants it.
		}
		mount, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, r.belongs("mode="+folder.mode)...)
		if err != nil {
			return err
		}
		r.owns(mount)
		if err := mountPlain(mount, nil, folder.path); err != nil {
			return err
		}
	}
	return nil
}

// placeMounts puts the spec's mounts where they belong, in their order: a later one may lie within an earlier one.
func (r *root) placeMounts() error {
	inside, err := r.inside()
	if err != nil {
		return fail("user", err)
	}
	for _, mount := range r.mounts {
		place, _, err := inside.Make(mount.target, mount.directory)
		helps := r.spec.Hosts != "" && mount.target == hostsTarget || r.spec.Names != "" && mount.target == namesTarget
		if err != nil && helps {
			unix.Close(mount.tree) // names that resolve are a help, and no reason to fail
			continue
		}
		if err != nil {
			return fmt.Errorf("mount target %s cannot be made (%w); take a directory that exists, or one in /tmp or /run",
				mount.target, err)
		}
		if err := attach(mount.tree, place); err != nil {
			return fmt.Errorf("mount onto %s: %w", mount.target, err)
		}
	}
	return nil
}
