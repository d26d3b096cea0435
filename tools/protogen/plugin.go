package main

// This file calls protoc's plugins, with one request on a plugin's standard input and one answer on its output.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"

	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugin is one code generator. Its version is pinned as a `tool` of tools/go.mod. A new one needs a line there (`go
// get -tool`) and a line here.
type plugin struct {
	tool      string // the name for `go tool`
	parameter string
	folder    string // folder of the files it applies to; empty: all
}

var plugins = []plugin{
	{tool: "protoc-gen-go", parameter: "paths=source_relative"},
	{tool: "protoc-gen-go-grpc", parameter: "paths=source_relative"}, // writes nothing for a file without calls
	// Marshalling without reflection, for data on disks and between nodes. The library still parses, because it
	// rejects text that is not UTF-8.
	{tool: "protoc-gen-go-vtproto", parameter: "paths=source_relative,features=marshal+size", folder: "messages"},
}

// generate runs every plugin over the files, which are named by slash paths from the root. The result maps such a path
// to a file's text.
func generate(files linker.Files, names []string) (map[string]string, error) {
	request := &pluginpb.CodeGeneratorRequest{}
	ours := map[string]string{} // a neighbour's bare name → the name it is registered under
	for _, name := range names {
		ours[path.Base(name)] = name
	}
	seen := map[string]bool{}
	for _, file := range files {
		request.ProtoFile = appendWithImports(request.ProtoFile, file, seen)
	}
	for _, file := range request.ProtoFile {
		qualifyNames(file, ours)
	}
	outputs := map[string]string{}
	for _, plugin := range plugins {
		request.Parameter = proto.String(plugin.parameter)
		request.FileToGenerate = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return plugin.folder != "" && path.Dir(name) != plugin.folder
		})
		response, err := plugin.run(request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin.tool, err)
		}
		for _, file := range response.File {
			outputs[file.GetName()] = file.GetContent()
		}
	}
	return outputs, nil
}

// qualifyNames replaces the names of a file and of its imports from this module by their registered names. Other
// imports (google/protobuf/…) keep their names.
func qualifyNames(file *descriptorpb.FileDescriptorProto, ours map[string]string) {
	if public, ok := ours[file.GetName()]; ok {
		file.Name = proto.String(public)
	}
	for i, dependency := range file.Dependency {
		if public, ok := ours[dependency]; ok {
			file.Dependency[i] = public
		}
	}
}

// appendWithImports adds a file after all its imports, because plugins resolve names while they read.
func appendWithImports(
	list []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor, seen map[string]bool,
) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return list
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		list = appendWithImports(list, imports.Get(i).FileDescriptor, seen)
	}
	// A copy, because the names in it will change.
	return append(list, proto.Clone(protoutil.ProtoFromFileDescriptor(file)).(*descriptorpb.FileDescriptorProto))
}

// run starts the plugin from the tools module, which is the working folder.
func (p plugin) run(request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	command := exec.Command("go", "tool", p.tool)
	command.Stdin = bytes.NewReader(input)
	command.Stdout = &output
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output.Bytes(), response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response, nil
}
