//go:build linux

package carapace

// This file builds the container's root on the starter's thread. The order of the steps makes it safe:
//
//  1. All mounts become private, so no change reaches the host's mounts.
//  2. Each directory to be shown from the host is cloned as a detached mount, while the host's paths still have the
//     caller's meaning.
//  3. The root is built on a new tmpfs: a rootfs, or the host view.
//  4. The thread calls pivot_root, and chroot into the container's root. After that no path leads out, whatever links
//     the image has, so the other mounts use the image's own paths. Meanwhile init releases the host's root. Before
//     that, no command runs.
//
// The container's root is one level below the namespace's root, so the task is in a chroot. The kernel then refuses new
// user namespaces, by any system call. A filter could not do this, because it cannot see the flags of clone3.

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

// root builds one container's root.
type root struct {
	spec   *Spec
	order  *order
	init   *fork.Process
	spaces *spaces // of a container with a separate id range; nil: it has the host's ids

	mounts   []shown         // of the spec, and the scratch directory
	own      map[uint64]bool // the mounts that only this container has
	composed bool            // another program makes the container
	devices  []shown         // nodes to bind-mount if the starter may not make device nodes
	views    map[string]int
	proc     int
	sysfs    int
	blank    int // an empty directory, made when first needed
}

// shown is a detached mount and its target.
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

// takeMounts clones the spec's mounts from the host.
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
			return fmt.Errorf("prepare the mount for %s: %w", mount.Target, err)
		}
		r.mounts = append(r.mounts, shown{tree, filepath.Clean(mount.Target), stat.Mode&unix.S_IFMT == unix.S_IFDIR})
	}
	return nil
}

// take returns a detached mount of the source. Package hostpath opens a source that a job names. A path of the caller
// is used directly.
func (r *root) take(mount Mount) (int, error) {
	if mount.Named != nil {
		tree, err := mount.Named.Clone(mount.ReadOnly)
		if err == nil && mount.Named.Held == 0 { // A held mount already has its id mapping.
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
		attributes |= unix.MOUNT_ATTR_NODEV // Devices are granted one by one, never through a directory.
	}
	if mount.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if err := setAttributes(tree, attributes, unix.AT_RECURSIVE); err != nil {
		return -1, fmt.Errorf("mount %s: %w", mount.Source, err)
	}
	if mount.ReadOnly {
		return tree, nil // The caller's own files, readable for all; no ids matter.
	}
	return tree, r.mapPlain(tree)
}

// mapPlain maps the container's root to one plain user in a host directory.
func (r *root) mapPlain(tree int) error {
	if r.spaces == nil {
		return nil
	}
	return mapMount(tree, r.spaces.machine)
}

// belongs returns the options of a tmpfs that the container's root owns.
func (r *root) belongs(options ...string) []string {
	if r.spec.IDs == nil {
		return options
	}
	first := strconv.FormatUint(uint64(r.spec.IDs.First), 10)
	return append(options, "uid="+first, "gid="+first)
}

// refuseHidden refuses a mount of a hidden directory or of its parents. Scratch directories may be inside a hidden
// directory, because the caller made them. Only sources that a user chose are checked.
func (r *root) refuseHidden(source string) error {
	if slices.Contains([]string{r.spec.Scratch, r.spec.Names, r.spec.Hosts, r.spec.Hostfile, r.spec.Helper}, source) {
		return nil
	}
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", source, err)
	}
	if hidden, ok := shows(real, r.spec.Hide); ok {
		return fmt.Errorf("mount %s: %s is hidden from tasks; mount another directory", source, hidden)
	}
	return nil
}

// shows reports whether a path is inside a hidden directory or contains one. The path must not contain links.
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

// Within reports whether a path is a folder or is below it.
func Within(path, folder string) bool {
	folder, path = filepath.Clean(folder), filepath.Clean(path)
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// takeDevices clones the host's device nodes if the starter may not make any.
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

// takeViews clones the container's own cgroups, so a task can read its limits in the usual place.
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

// takeSystem makes the mounts of /proc and /sys. Without root, the kernel permits this only while the host's own are
// visible. The proc belongs to init's pid namespace, so init makes it.
func (r *root) takeSystem() (err error) {
	if r.proc, err = r.init.Proc(); err != nil {
		return r.order.explain(err)
	}
	if !r.order.Rootless {
		r.sysfs, err = newMount("sysfs", systemDirs|unix.MOUNT_ATTR_RDONLY)
		return err
	}
	// Only the owner of the network may make a sysfs, so this clones the host's.
	if r.sysfs, err = cloneTree("/sys"); err != nil {
		return err
	}
	return setReadOnly(r.sysfs, unix.AT_RECURSIVE)
}

// makeBase mounts the tmpfs of the namespace's root, and the container's root below it.
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

// owns notes a mount in which every path may be created, because only this container uses it.
func (r *root) owns(mount int) {
	if r.own == nil {
		r.own = map[uint64]bool{}
	}
	r.own[hostpath.MountID(mount)] = true
}

// inside returns the finished root with the rights of the task's user.
func (r *root) inside() (hostpath.Inside, error) {
	who, err := lookUp(r.spec.User, r.spec.Groups)
	return insideOf(r.order, r.own, who), err
}

// insideOf returns a finished root with the host's ids of its user.
func insideOf(order *order, own map[uint64]bool, who account) hostpath.Inside {
	ids := order.Spec.IDs
	guest := hostpath.Guest{UID: ids.outside(who.uid), GID: ids.outside(who.gid), Self: order.Rootless}
	for _, group := range who.groups {
		guest.Groups = append(guest.Groups, ids.outside(int(group)))
	}
	return hostpath.Inside{As: guest, Own: own, Root: ids.outside(0)}
}

// enter makes the tmpfs the root of the namespace, and enters the container's root. pivot_root stacks the host's root
// on top of the tmpfs, so no directory is needed for it. Meanwhile, init releases the host's root. The kernel then
// waits for every processor, which may take longer than all other steps. The working directory still refers to the
// host's root, so all later paths must be absolute.
func (r *root) enter() error {
	if err := unix.Chdir(r.order.Base); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := r.init.Pivoted(); err != nil {
		return fmt.Errorf("tell init to release the host's root: %w", err)
	}
	if err := unix.Chroot("root"); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return nil
}

// mountSystem mounts /proc and /sys.
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
		return nil // The kernel has no cgroups there.
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

// mountTemporary mounts writable directories into a read-only root, at the paths that most programs write to.
func (r *root) mountTemporary() error {
	folders := []struct{ path, mode string }{{"/tmp", "1777"}, {"/run", "0755"}, {"/var/tmp", "1777"}}
	if r.spec.Rootfs == hostRootfs {
		folders = append(folders, struct{ path, mode string }{"/root", "0700"})
	} else if !r.spec.ReadOnly {
		return nil
	}
	for _, folder := range folders {
		if _, err := os.Lstat(folder.path); errors.Is(err, os.ErrNotExist) {
			continue // The image has no such directory, so its programs do not use it.
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

// placeMounts attaches the spec's mounts in their order. A later one may be inside an earlier one.
func (r *root) placeMounts() error {
	inside, err := r.inside()
	if err != nil {
		return fail("user", err)
	}
	for _, mount := range r.mounts {
		place, _, err := inside.Make(mount.target, mount.directory)
		helps := r.spec.Hosts != "" && mount.target == hostsTarget || r.spec.Names != "" && mount.target == namesTarget
		if err != nil && helps {
			unix.Close(mount.tree) // without this file, the task still runs
			continue
		}
		if err != nil {
			return fmt.Errorf("mount target %s cannot be made (%w); use an existing directory, or one in /tmp or /run",
				mount.target, err)
		}
		if err := attach(mount.tree, place); err != nil {
			return fmt.Errorf("mount onto %s: %w", mount.target, err)
		}
	}
	return nil
}
