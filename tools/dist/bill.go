package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// This file writes the bill of materials, in CycloneDX's JSON: the modules that the programs were linked from. It reads
// the data that Go wrote into the programs, and no file of the repository.

type bill struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []linkedOf  `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type linkedOf struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// library returns a module as a component.
func library(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	p := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" { // hash of the module's files, as in go.sum
		p.Properties = []property{{"go:sum", m.Sum}}
	}
	return p
}

// bill returns the bill of all programs of a build.
func (b build) bill() (product, error) {
	parts := map[string]component{}
	var programs []component
	var links []linkedOf
	for _, p := range b.programs {
		info, err := buildinfo.Read(bytes.NewReader(p.body))
		if err != nil {
			return product{}, fmt.Errorf("%s: %w", p.name, err)
		}
		program := component{Type: "application", Ref: p.name, Name: p.name, Version: b.version}
		for _, s := range info.Settings {
			program.Properties = append(program.Properties, property{"go:build:" + s.Key, s.Value})
		}
		programs = append(programs, program)
		std := library(&debug.Module{Path: "stdlib", Version: info.GoVersion[len("go"):]})
		parts[std.Ref] = std
		of := linkedOf{Ref: p.name, DependsOn: []string{std.Ref}}
		for _, m := range info.Deps {
			l := library(m)
			parts[l.Ref] = l
			of.DependsOn = append(of.DependsOn, l.Ref)
		}
		links = append(links, of)
	}
	for _, p := range parts {
		programs = append(programs, p)
	}
	slices.SortFunc(programs, func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })
	text, err := json.MarshalIndent(bill{
		Format: "CycloneDX", SpecVersion: "1.5", Version: 1, Components: programs, Dependencies: links,
		Metadata: metadata{
			Timestamp: b.when.Format(time.RFC3339),
			Component: component{Type: "application", Ref: "synapse", Name: "synapse", Version: b.version},
		},
	}, "", "\t")
	return product{fmt.Sprintf("synapse_%s_linux_%s.cdx.json", b.plain(), b.arch), append(text, '\n')}, err
}
