package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// This file writes the Debian package: an ar archive of two tars, as in deb(5). The available library would add a
// hundred modules, including git's protocols, for a format of three members.

const (
	homepage = "https://github.com/yi-json/synapse"
	summary  = "gang scheduler for training jobs on many machines"
	about    = "A job gets all the GPUs that it asked for at once, as close together as the machine room\n" +
		"allows, or it gets none and holds nothing. This has the scheduler, the agent of a machine, the\n" +
		"container runtime and the client. Nothing is started by installing it."
	packager = "Synapse <synapse@localhost>"
)

// scripts holds the scripts of a package, by Debian's names for their occasions.
type scripts map[string]string

// readScripts reads deploy/scripts, which both kinds of packages contain.
func readScripts(dir string) (scripts, error) {
	all := scripts{}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		text, err := os.ReadFile(filepath.Join(dir, "deploy", "scripts", name))
		if err != nil {
			return nil, err
		}
		all[name] = string(text)
	}
	return all, nil
}

func debian(s scripts, r release, arch string, files []file) product {
	size, sums, configs := 0, strings.Builder{}, strings.Builder{}
	for _, f := range files {
		size += len(f.body)
		switch {
		case f.link != "":
		case f.config:
			fmt.Fprintf(&configs, "/%s\n", f.path)
		default:
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.body), f.path)
		}
	}
	control := fmt.Sprintf("Package: synapse\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\n"+
		"Section: admin\nPriority: optional\nHomepage: %s\nRecommends: systemd, nftables\nDescription: %s\n %s\n",
		r.plain(), arch, packager, (size+1023)/1024, homepage, summary, strings.ReplaceAll(about, "\n", "\n "))
	controls := []file{
		{path: "conffiles", mode: 0o644, body: []byte(configs.String())},
		{path: "control", mode: 0o644, body: []byte(control)},
		{path: "md5sums", mode: 0o644, body: []byte(sums.String())},
	}
	for _, name := range []string{"postinst", "postrm", "prerm"} {
		controls = append(controls, file{path: name, mode: 0o755, body: []byte(s[name])})
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, member := range []product{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.gz", squeezed(archived("./", r.when, controls))},
		{"data.tar.gz", squeezed(archived("./", r.when, files))},
	} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, r.when.Unix(), 0, 0, "100644", len(member.body))
		b.Write(member.body)
		if len(member.body)%2 != 0 {
			b.WriteByte('\n')
		}
	}
	return product{fmt.Sprintf("synapse_%s_%s.deb", r.plain(), arch), b.Bytes()}
}
