// Package schema_test keeps doc/json.md in step with the JSON Schemas beside
// it.
package schema_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

var update = flag.Bool("update", false, "rewrite the tables of doc/json.md")

// table finds the place of a schema's table: between a comment that names the
// schema and the next empty line.
var table = regexp.MustCompile(`(<!-- (\w[\w-]*)\.json(?:#/\$defs/(\w+))? -->\n)(?:\|[^\n]*\n)*`)

// Every schema is valid, and its table in doc/json.md says what its
// descriptions say.
func TestTables(t *testing.T) {
	page := filepath.Join("..", "json.md")
	text := testref.Must(os.ReadFile(page))(t)
	shown, headings := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(string(text), -1) {
		headings[m[1]] = true
	}
	want := table.ReplaceAllStringFunc(string(text), func(place string) string {
		m := table.FindStringSubmatch(place)
		shown[m[2]+".json"] = true
		s := read(t, m[2]+".json")
		if m[3] != "" {
			s = s.Defs.of(m[3])
		}
		w := writer{t: t, defs: read(t, m[2]+".json").Defs, seen: map[string]string{}, headings: headings}
		w.members("", s)
		return m[1] + "| member | type | meaning |\n|---|---|---|\n" + w.String()
	})
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		text = []byte(want)
	}
	require.True(t, want == string(text), "doc/json.md is not what the schemas say; run go test ./doc/schema -update")

	files := testref.Must(filepath.Glob("*.json"))(t)
	for _, file := range files {
		require.NoError(t, testref.Err(jsonschema.NewCompiler().Compile(file)))
		require.True(t, shown[file], "doc/json.md has no table of %s", file)
		s := read(t, file)
		if file != "common.json" {
			require.Equal(t, "funcgp/"+strings.TrimSuffix(file, ".json"), strings.TrimRight(s.Title, "/0123456789"))
			require.Equal(t, fmt.Sprintf("%q", s.Title), string(s.Properties.of("schema").Const))
			closed(t, file, s)
		}
		for _, def := range s.Defs {
			closed(t, file+" "+def.name, def.schema)
		}
	}
}

// closed checks that an object admits no member that its schema does not name, and
// that all have a description.
func closed(t *testing.T, where string, s *schema) {
	require.Equal(t, "false", string(s.Additional), where)
	for _, m := range s.Properties {
		require.NotEmpty(t, m.schema.Description, "%s: %s", where, m.name)
	}
}

// A schema has what the schemas of this directory use.
type schema struct {
	Title, Description string
	Ref                string `json:"$ref"`
	Type               any
	Enum               []string
	Const, Additional  json.RawMessage
	Items              *schema
	Required           []string
	Properties         members
	Defs               members `json:"$defs"`
}

func (s *schema) UnmarshalJSON(b []byte) error {
	type plain schema
	return json.Unmarshal(b, &struct {
		*plain
		Additional *json.RawMessage `json:"additionalProperties"`
	}{(*plain)(s), &s.Additional})
}

// members are those of an object in their order.
type members []struct {
	name   string
	schema *schema
}

func (m *members) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		s := &schema{}
		if err := d.Decode(s); err != nil {
			return err
		}
		if m.of(name.(string)) != nil {
			return fmt.Errorf("%s is there twice", name)
		}
		*m = append(*m, struct {
			name   string
			schema *schema
		}{name.(string), s})
	}
	return nil
}

func (m members) of(name string) *schema {
	for _, x := range m {
		if x.name == name {
			return x.schema
		}
	}
	return nil
}

func read(t *testing.T, file string) *schema {
	text := testref.Must(os.ReadFile(file))(t)
	s := &schema{}
	require.NoError(t, json.Unmarshal(text, s), file)
	return s
}

// A writer writes one line of a table for each member.
type writer struct {
	strings.Builder
	t    *testing.T
	defs members
	seen map[string]string // where a definition was shown first

	headings map[string]bool // definitions that have a table of their own
}

func (w *writer) members(prefix string, s *schema) {
	required := strings.Join(s.Required, " ") + " "
	for _, m := range s.Properties {
		path, inner := prefix+m.name, m.schema
		kind := w.kind(m.schema)
		if !strings.Contains(" "+required, " "+m.name+" ") {
			kind += ", optional"
		}
		for inner.Items != nil {
			path, inner = path+"[]", inner.Items
		}
		def, local := strings.CutPrefix(inner.Ref, "#/$defs/")
		meaning := m.schema.Description
		if first, shown := w.seen[def]; local && shown {
			meaning += "; members as of `" + first + "`"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", prefix+m.name, kind, meaning)
		if local && w.seen[def] == "" {
			object := w.defs.of(def)
			require.NotNil(w.t, object, "no definition of %s", inner.Ref)
			w.seen[def] = path
			w.members(path+".", object)
		}
	}
}

// kind is the type of a value in words.
func (w *writer) kind(s *schema) string {
	if s.Const != nil {
		return "`" + string(s.Const) + "`"
	}
	if s.Enum != nil {
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	}
	if file, def, ok := strings.Cut(s.Ref, "#/$defs/"); ok {
		if file != "" && w.headings[def] {
			return fmt.Sprintf("[%s](#%s)", def, def)
		}
		return "object"
	}
	names, ok := s.Type.([]any)
	if !ok {
		names = []any{s.Type}
	}
	var out []string
	for _, n := range names {
		name := n.(string)
		if name == "array" {
			name = "list of " + plural(w.kind(s.Items))
		}
		out = append(out, name)
	}
	return strings.Join(out, " or ")
}

// plural turns "number or null" into "numbers or nulls".
func plural(kind string) string {
	words := strings.Split(kind, " or ")
	for i, w := range words {
		if !strings.HasPrefix(w, "list") {
			words[i] = w + "s"
		} else {
			words[i] = strings.Replace(w, "list", "lists", 1)
		}
	}
	return strings.Join(words, " or ")
}
