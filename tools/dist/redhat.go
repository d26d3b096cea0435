package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/google/rpmpack"
)

// This file writes the RPM package.

// redhatNames maps architectures to RPM's names.
var redhatNames = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

const symbolicLink = 0o120000

func redhat(s scripts, r release, arch string, files []file) (product, error) {
	// RPM's Release counts the packages of a version, and this is the first.
	p, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: "synapse", Version: r.plain(), Release: "1", Arch: redhatNames[arch], OS: "linux", Summary: summary,
		Description: about, URL: homepage, Packager: packager, Licence: "see the repository", BuildHost: "localhost",
		BuildTime: r.when, Compressor: "gzip",
	})
	if err != nil {
		return product{}, err
	}
	for _, f := range files {
		at := rpmpack.RPMFile{
			Name: "/" + f.path, Body: f.body, Mode: uint(f.mode), Owner: "root", Group: "root", MTime: uint32(r.when.Unix()),
		}
		if f.link != "" {
			at.Body, at.Mode = []byte(f.link), symbolicLink|0o777
		}
		if f.config {
			at.Type = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		}
		p.AddFile(at)
	}
	// The scripts get Debian's argument for the occasion instead of RPM's count of remaining packages, so that both
	// kinds share the scripts.
	p.AddPostin(asked(s["postinst"], "configure", "configure"))
	p.AddPreun(asked(s["prerm"], "remove", "upgrade"))
	p.AddPostun(asked(s["postrm"], "remove", "upgrade"))
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return product{}, err
	}
	return product{fmt.Sprintf("synapse-%s-1.%s.rpm", r.plain(), redhatNames[arch]), b.Bytes()}, nil
}

// asked adds the argument to a script: gone if the package is removed, and stays if another version of it remains.
func asked(script, gone, stays string) string {
	_, body, _ := strings.Cut(script, "\n") // rpm has its own first line
	return fmt.Sprintf("if [ \"$1\" = 0 ]; then set -- %s; else set -- %s; fi\n%s", gone, stays, body)
}
