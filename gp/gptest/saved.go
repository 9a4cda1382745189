package gptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/funcgp/funcgp/internal/store"
)

// A SavedCase is a posterior of type P that can be saved.
type SavedCase[P any] struct {
	Posterior P
	Save      func(p P, w *store.Writer) error
	Load      func(f *store.File) (P, error)
	// Answers lists all numbers that a posterior answers, the same ones in
	// every call.
	Answers func(t *testing.T, p P) []float64
}

const (
	savedKind = "test"
	savedFile = "FUNCGP_SAVED_POSTERIOR" // what the other process loads
)

// Saved checks what every saved posterior promises: a loaded one answers the
// same to the last bit, in this and in another process, and is written again
// as it was; a section that is damaged, missing or of another size is a
// *store.Error. The other process runs the same test, and ends here; a short run starts
// none.
//
//	gptest.Saved(t, gptest.SavedCase[*Mine]{
//		Posterior: post,
//		Save:      func(p *Mine, w *store.Writer) error { return p.Save(w) },
//		Load:      func(f *store.File) (*Mine, error) { return LoadMine(f, kernel, train) },
//		Answers:   func(t *testing.T, p *Mine) []float64 { return means(t, p, test) },
//	})
func Saved[P any](t *testing.T, c SavedCase[P]) {
	if path := os.Getenv(savedFile); path != "" {
		p, done := c.open(t, path)
		defer done()
		t.Logf("answers %x", checksum(c.Answers(t, p)))
		return
	}
	path := c.write(t)
	want := c.Answers(t, c.Posterior)
	c.roundTrip(t, path, want)
	if !testing.Short() {
		c.otherProcess(t, path, want)
	}
	c.damage(t, path)
	c.sizes(t, path)
}

func (c SavedCase[P]) write(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "posterior.gp")
	err := store.Write(path, savedKind, 1, func(w *store.Writer) error { return c.Save(c.Posterior, w) })
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c SavedCase[P]) open(t *testing.T, path string) (P, func()) {
	t.Helper()
	f, err := store.Open(path, savedKind, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	return p, func() { f.Close() }
}

func (c SavedCase[P]) roundTrip(t *testing.T, path string, want []float64) {
	t.Helper()
	p, done := c.open(t, path)
	defer done()
	again := c
	again.Posterior = p
	if !bytes.Equal(read(t, again.write(t)), read(t, path)) {
		t.Error("a loaded posterior is written otherwise than it was")
	}
	RequireBits(t, "the loaded posterior", c.Answers(t, p), want)
	RequireBits(t, "the saved posterior, afterwards", c.Answers(t, c.Posterior), want)
}

// otherProcess runs the test alone in another process.
func (c SavedCase[P]) otherProcess(t *testing.T, path string, want []float64) {
	t.Helper()
	var names []string
	for _, n := range strings.Split(t.Name(), "/") {
		names = append(names, "^"+regexp.QuoteMeta(n)+"$")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+strings.Join(names, "/"))
	cmd.Env = append(os.Environ(), savedFile+"="+path)
	out, err := cmd.CombinedOutput()
	if line := fmt.Sprintf("answers %x\n", checksum(want)); err != nil || bytes.Count(out, []byte("answers ")) != 1 || !bytes.Contains(out, []byte(line)) {
		t.Errorf("another process says %q, not %q; error %v", out, line, err)
	}
}

// damage flips one bit in the middle of every section.
func (c SavedCase[P]) damage(t *testing.T, path string) {
	t.Helper()
	good := read(t, path)
	from := 64 // behind the header the sections follow in their order
	for _, s := range sections(t, path) {
		if len(s.data) == 0 {
			continue
		}
		at := bytes.Index(good[from:], s.data)
		if at < 0 {
			t.Fatalf("section %s is not in the file", s.name)
		}
		from += at + len(s.data)
		bad := slices.Clone(good)
		bad[from-len(s.data)+len(s.data)/2] ^= 4
		c.requireError(t, "flipped byte in "+s.name, bad)
	}
}

// sizes drops sections, and cuts them or adds to them.
func (c SavedCase[P]) sizes(t *testing.T, path string) {
	t.Helper()
	all := sections(t, path)
	for i, s := range all {
		others := slices.Delete(slices.Clone(all), i, i+1)
		c.requireError(t, "no "+s.name, rewritten(t, others))
		data := append(slices.Clone(s.data), make([]byte, 8)...)
		switch {
		case i%3 == 1 && len(s.data) > 0:
			data = s.data[:len(s.data)/16*8]
		case i%3 == 2:
			data = append(slices.Clone(s.data), '{')
		}
		c.requireError(t, fmt.Sprintf("%s of %d bytes", s.name, len(data)), rewritten(t, append(others, section{s.name, data})))
	}
}

// requireError loads a file that must not load.
func (c SavedCase[P]) requireError(t *testing.T, what string, file []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bad.gp")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := store.Open(path, savedKind, 1)
	if err == nil {
		defer f.Close()
		_, err = c.Load(f)
	}
	var problem *store.Error
	if !errors.As(err, &problem) || problem.File != path || problem.Remedy == "" {
		t.Errorf("%s: error %v", what, err)
	}
}

// FuzzSaved loads posteriors of which sections were changed, their checksums
// with them, and lets those that load predict: there must be no panic.
func FuzzSaved[P any](f *testing.F, predict func(p P) error, cases ...SavedCase[P]) {
	var good [][]section
	for i, c := range cases {
		good = append(good, sections(f, c.write(f)))
		for j := range good[i] {
			f.Add(uint(i), []byte{byte(j), 0, 1, 0})
			f.Add(uint(i), []byte{byte(j), 1, 9, 0})
			f.Add(uint(i), []byte{byte(j), 3, 0, 3, byte(j), 3, 1, 8})
		}
	}
	f.Fuzz(func(t *testing.T, which uint, edits []byte) {
		which %= uint(len(cases))
		path := filepath.Join(t.TempDir(), "edited.gp")
		if err := os.WriteFile(path, rewritten(t, edited(good[which], edits)), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := store.Open(path, savedKind, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p, err := cases[which].Load(file)
		if err == nil {
			_ = predict(p) // may fail
		}
	})
}

type section struct {
	name string
	data []byte
}

func sections(t testing.TB, path string) []section {
	t.Helper()
	f, err := store.Open(path, savedKind, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []section
	for _, name := range f.Sections() {
		b, err := f.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, section{name, slices.Clone(b)})
	}
	return all
}

// rewritten returns a file with these sections.
func rewritten(t testing.TB, all []section) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rewritten.gp")
	err := store.Write(path, savedKind, 1, func(w *store.Writer) error {
		for _, s := range all {
			w.Bytes(s.name, s.data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

// edited applies edits of four bytes each: section, kind, place, value.
func edited(good []section, edits []byte) []section {
	all := slices.Clone(good)
	for ; len(edits) >= 4; edits = edits[4:] {
		s := &all[int(edits[0])%len(all)]
		place, value := int(edits[2]), edits[3]
		switch n := len(s.data); edits[1] % 4 {
		case 0:
			s.data = s.data[:n*place/256/8*8]
		case 1:
			s.data = append(slices.Clip(s.data), make([]byte, place*8)...)
		case 2:
			if n > 0 {
				s.data = slices.Clone(s.data)
				s.data[place%n] = value
			}
		case 3:
			s.data = editedJSON(s.data, place, value)
		}
	}
	return all
}

// editedJSON gives a field of an object another value.
func editedJSON(data []byte, place int, value byte) []byte {
	var m map[string]any
	if json.Unmarshal(data, &m) != nil || len(m) == 0 {
		return data
	}
	values := []any{-1, 0, 1, 2, 5, 21, 1 << 31, 1 << 40, int64(1) << 62, 0.5, "x", nil, true, false, []int{}, []int{-1, 7}, []int{1 << 40}}
	m[slices.Sorted(maps.Keys(m))[place%len(m)]] = values[int(value)%len(values)]
	out, err := json.Marshal(m)
	if err != nil {
		return data
	}
	return out
}

func checksum(v []float64) uint64 {
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	for _, x := range v {
		fmt.Fprintf(sum, "%016x", math.Float64bits(x))
	}
	return sum.Sum64()
}

// RequireBits compares lists of numbers to the last bit.
func RequireBits(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d numbers, want %d", what, len(got), len(want))
	}
	for i, v := range want {
		if math.Float64bits(got[i]) != math.Float64bits(v) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], v)
		}
	}
}
