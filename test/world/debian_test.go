//go:build world

package world

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/oci"
	"github.com/yi-json/synapse/test/able"
)

// This file tests Debian: a complete distribution, in a task that is root of its container.

// debianScript runs typical commands of root, and prints each result.
const debianScript = `set -e
mkdir -p /build/DEBIAN /build/usr/bin
cat >/build/DEBIAN/control <<END
Package: synapse-tried
Version: 1
Architecture: all
Maintainer: nobody <nobody@localhost>
Description: tried
END
cat >/build/DEBIAN/postinst <<END
#!/bin/sh
useradd --system --shell /bin/sh tried && chown tried: /usr/bin/tried-file
END
chmod 755 /build/DEBIAN/postinst
cp /usr/bin/id /build/usr/bin/tried-id; chmod 4755 /build/usr/bin/tried-id
echo >/build/usr/bin/tried-file; cp /usr/bin/id /build/usr/bin/plain-id
dpkg-deb --build /build /tried.deb >/dev/null
dpkg -i /tried.deb >/dev/null
dpkg-query -W -f '${Status}\n' synapse-tried
stat -c '%U %a' /usr/bin/tried-id /usr/bin/tried-file
setpriv --reuid=games --regid=games --clear-groups /usr/bin/tried-id -u
setpriv --reuid=games --regid=games --clear-groups /usr/bin/plain-id -u
su tried -c 'id -un'
dpkg --purge synapse-tried >/dev/null 2>&1; test ! -e /usr/bin/tried-id && echo purged
passwd -d games >/dev/null && echo passwd
perl -MSocket -e 'socket(my $s, AF_INET, SOCK_STREAM, 0); print bind($s, sockaddr_in(81, INADDR_LOOPBACK)) ? "served\n" : "refused\n"'
mknod /dev/tried b 8 0 2>/dev/null || echo no node
mount -t tmpfs none /mnt 2>/dev/null || echo no mount
cat /proc/sys/kernel/core_pattern >/dev/null; (echo x >/proc/sys/kernel/core_pattern) 2>/dev/null || echo no setting
`

const debianSays = "install ok installed\nroot 4755\ntried 644\n0\n5\ntried\npurged\npasswd\nPORT\nno node\n" +
	"no mount\nno setting\n"

// TestDebian installs and removes packages with their own users and set-user-ID programs as root of a container.
// Nothing on the host may change. A port below 1024 must work on a private network of the job, and not on the host
// network.
func TestDebian(t *testing.T) {
	t.Parallel()
	able.Need(t, able.OwnRoot, able.Program("debootstrap"))
	bin, folder := made(t)
	root, binary := filepath.Join(folder, "root"), filepath.Join(bin, "carapace")
	debootstrap(t, root)
	before := listing(t, root)
	t.Run("carapace", func(t *testing.T) { debianInContainers(t, root, folder) })
	for _, name := range oci.Runtimes {
		t.Run(name, func(t *testing.T) {
			debianOnAMachine(t, root, newMachine(t, binary, able.Runtime(t, name), filepath.Join(folder, name)))
		})
	}
	if after := listing(t, root); after != before {
		t.Error("the image has changed")
	}
}

// debianInContainers runs it in Synapse's containers.
func debianInContainers(t *testing.T, root, folder string) {
	for net, port := range map[string]string{carapace.NetNone: "served", "host": "refused"} {
		layer, said := filepath.Join(folder, "layer-"+net), filepath.Join(folder, "said-"+net)
		if err := os.Mkdir(layer, 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(said)
		if err != nil {
			t.Fatal(err)
		}
		container, err := carapace.Start(carapace.Spec{
			Rootfs: root, Layer: layer, Net: net, Command: []string{"/bin/sh", "-c", debianScript},
			IDs: &carapace.IDs{First: 400_000_000, UID: 65534, GID: 65534},
		}, carapace.Options{
			StateDir: filepath.Join(folder, "state"), Cgroups: carapace.Cgroups{Parent: "/world-debian"},
			Stdout: out, Stderr: out,
		})
		out.Close()
		if err != nil {
			t.Fatal(err)
		}
		exit := container.Wait()
		text, err := os.ReadFile(said)
		if want := strings.Replace(debianSays, "PORT", port, 1); err != nil || exit.Code != 0 || string(text) != want {
			t.Errorf("%s: %+v (%v)\ngot  %q\nwant %q", net, exit, err, text, want)
		}
	}
	if _, err := carapace.GC(filepath.Join(folder, "state"), carapace.Cgroups{Parent: "/world-debian"}); err != nil {
		t.Error(err)
	}
}

// debianOnAMachine runs it as jobs with user root.
func debianOnAMachine(t *testing.T, root string, m *machine) {
	for network, port := range map[messages.Network]string{
		messages.Network_NETWORK_NONE: "served", messages.Network_NETWORK_HOST: "refused",
	} {
		exit, said := m.runs(t, &messages.JobSpec{
			Name: "debian", Image: root, User: "root", Network: network, Command: []string{"/bin/sh", "-c", debianScript},
		})
		if want := strings.Replace(debianSays, "PORT", port, 1); exit.GetCode() != 0 || said != want {
			t.Errorf("%v: %v\ngot  %q\nwant %q", network, exit, said, want)
		}
	}
}

// debootstrap creates a Debian root from this host's package sources, with additional packages.
func debootstrap(t *testing.T, root string, packages ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	const script = `suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
debootstrap --variant=minbase ${1:+--include="$1"} "$suite" "$0" "$mirror"`
	if text, err := exec.CommandContext(ctx, "bash", "-c", script, root,
		strings.Join(packages, ",")).CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		t.Fatalf("debootstrap: %v: %s", err, strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
}

// listing lists all files with their owners and times.
func listing(t *testing.T, root string) string {
	t.Helper()
	text, err := exec.Command("find", root, "-printf", `%P %U:%G %m %s %T@\n`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
