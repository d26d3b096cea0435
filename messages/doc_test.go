package messages

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// published returns every message of this folder's .proto files, by name.
func published(t testing.TB) map[string]protoreflect.MessageType {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]protoreflect.MessageType{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".proto") {
			continue
		}
		file, err := protoregistry.GlobalFiles.FindFileByPath("messages/" + f.Name())
		if err != nil {
			t.Fatalf("%s was not generated: %v", f.Name(), err)
		}
		for i := range file.Messages().Len() {
			d := file.Messages().Get(i)
			m, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
			if err != nil {
				t.Fatal(err)
			}
			all[string(d.Name())] = m
		}
	}
	return all
}

type validator interface {
	proto.Message
	Validate() error
}

// documented returns the rows of the README and its list of parts.
func documented(t *testing.T) (rows map[string][]string, parts []string) {
	t.Helper()
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, list, found := strings.Cut(string(data), "## Parts")
	if !found {
		t.Fatal("README.md has no list of parts")
	}
	rows = map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := strings.TrimSpace(cells[0])
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		name = strings.Trim(name, "`")
		if rows[name] != nil {
			t.Errorf("%s has two rows", name)
		}
		rows[name] = cells
	}
	for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(list, -1) {
		parts = append(parts, m[1])
	}
	return rows, parts
}

// TestEveryMessageIsDocumented checks that the README lists every message, either in a row with sender, key, answer and
// stale effect, or as a part of others.
func TestEveryMessageIsDocumented(t *testing.T) {
	rows, parts := documented(t)
	if !slices.IsSorted(parts) {
		t.Error("the list of parts is not in order")
	}
	all := published(t)
	for name := range all {
		_, isRow := rows[name]
		isPart := slices.Contains(parts, name)
		if isRow == isPart {
			t.Errorf("%s: has a row: %v, is a part: %v; it must be one of them", name, isRow, isPart)
		}
	}
	for name, cells := range rows {
		if all[name] == nil {
			t.Errorf("%s has a row, and is no message", name)
		}
		if len(cells) != 5 {
			t.Errorf("%s: %d cells instead of 5", name, len(cells))
			continue
		}
		for i, c := range cells {
			if strings.TrimSpace(c) == "" {
				t.Errorf("%s: cell %d is empty; a dash says that there is nothing", name, i+1)
			}
		}
	}
	for _, name := range parts {
		if all[name] == nil {
			t.Errorf("%s is named as a part, and is no message", name)
		}
	}
}

// TestDocumentedAnswersExist checks that every answer in the README is a message.
func TestDocumentedAnswersExist(t *testing.T) {
	rows, _ := documented(t)
	all := published(t)
	for name, cells := range rows {
		for _, m := range regexp.MustCompile("`([A-Za-z]+)").FindAllStringSubmatch(strings.Join(cells[3:], " "), -1) {
			if all[m[1]] == nil {
				t.Errorf("%s is answered by %s, which is no message", name, m[1])
			}
		}
	}
}

// TestEveryMessageIsValidated checks that every message in a row of the README has a Validate method.
func TestEveryMessageIsValidated(t *testing.T) {
	rows, _ := documented(t)
	all := published(t)
	for name := range rows {
		if m := all[name]; m != nil {
			if _, has := m.New().Interface().(validator); !has {
				t.Errorf("%s has no Validate", name)
			}
		}
	}
}
