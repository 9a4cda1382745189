package campaign

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// hostile are names that a page, a terminal or a format could take for its own.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</title><svg onload=alert(1)>`, `</script><!--`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
	"\x1b[2J\x1b]0;title\x07", "a\tb", "one\nline", "back\rspace\b", "nul\x00", "\x9b31m", "\u202Eleft", "\u2028line", "e\u0301", "\ufeffmark", "{{.}}", "%s%n%!", "=1+1", `a,"b";c`, strings.Repeat("long ", 400),
}

// marks are what no page may hold as it is: each is in one of the names.
var marks = []string{"<script>alert", "<img src=x", "<svg onload", "</script><!--", "' onmouseover='", `href="javascript:`}

// hostileNames is the part that gives columns, classes and rows the names that are hostile, and
// headers of CSV and NumPy files what they should not hold.
func hostileNames() Part {
	return Part{"names", "hostile names of columns, classes and rows on every page and terminal, and headers of CSV and NumPy files", nil, func(ctx context.Context, env *Env, r *Result) error {
		rnd := env.Rand(1)
		for ctx.Err() == nil {
			if err := nameTurn(ctx, env, r, rnd); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	}}
}

// nameTurn trains a network on a table with such names, and asks all that has a page about it.
func nameTurn(ctx context.Context, env *Env, r *Result, rnd *rand.Rand) error {
	names := slices.Clone(hostile)
	rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if strings.Contains(names[2], "\x00") { // which no command line can hold
		names[2], names[20] = names[20], names[2]
	}
	table := [][]string{{names[0], names[1], names[2], "id"}}
	for i := range 24 {
		table = append(table, []string{fmt.Sprint(rnd.Float64()), fmt.Sprint(rnd.NormFloat64()), names[3+i%2], fmt.Sprint(names[5+i%8], i)})
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(table); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.Temp, "names.csv"), text.Bytes(), 0o600); err != nil {
		return err
	}
	data := []string{"--data", "names.csv", "--id", "id", "--target", table[0][2], "--seed", fmt.Sprint(rnd.IntN(100))}
	run := func(args ...string) (ok bool) {
		stdout, stderr, exit := env.Gpexplain(ctx, args...)
		if ctx.Err() != nil {
			return false
		}
		r.Count(args[0], 1)
		what := fmt.Sprintf("%q with the names %.60q", args, names[:13])
		switch {
		case exit != 0 && exit != 1 && exit != 2, strings.Contains(stderr, "goroutine "), strings.Contains(stderr, "panic:"):
			r.Find("%s ends with status %d: %s", what, exit, tail([]byte(stderr)))
		case exit != 0 && strings.Count(stderr, "\n") != 1:
			r.Find("%s is refused in more than one line: %s", what, tail([]byte(stderr)))
		case exit == 0 && slices.Contains(args, "--json") && !json.Valid([]byte(strings.TrimSpace(stdout))) && args[0] != "predict":
			r.Find("%s writes no JSON: %s", what, tail([]byte(stdout)))
		}
		for _, c := range stdout + stderr {
			if unicode.IsControl(c) && c != '\n' || unicode.Is(unicode.Bidi_Control, c) {
				r.Find("%s writes the character %U to a terminal", what, c)
				break
			}
		}
		return exit == 0
	}
	if !run(append([]string{"train", "--arch", "mlp:3-1", "--epochs", "1", "--lbfgs", "3", "--out", "names.onnx"}, data...)...) {
		return nil
	}
	for _, verb := range []string{"explain", "predict", "importances", "audit", "evidence", "acquire", "validate", "inspect"} {
		args := append([]string{verb, "--model", "names.onnx"}, data...)
		switch verb {
		case "explain", "predict", "validate":
			args = append(args, "--test-data", "names.csv")
		case "acquire":
			args = append(args, "--pool", "names.csv", "--batch", "2")
		case "inspect":
			args = args[:3]
		}
		run(append(args, "--json")...)
		if verb == "acquire" || verb == "validate" || verb == "inspect" { // which have no page
			run(args...)
			continue
		}
		if !run(append(args, "--html", "names.html")...) {
			continue
		}
		page, err := os.ReadFile(filepath.Join(env.Temp, "names.html"))
		if err != nil {
			return err
		}
		r.Count("page of "+verb, 1)
		for _, name := range []string{names[0], names[1], names[3], names[4]} { // columns and classes
			if verb != "evidence" && plain(name) && !strings.Contains(strings.ReplaceAll(html.UnescapeString(string(page)), "\u00a0", " "), name) {
				r.Find("the page of %s does not hold the name %q", verb, name)
			}
		}
		for _, mark := range marks {
			if bytes.Contains(page, []byte(mark)) {
				r.Find("the page of %s holds %q as it is, of the names %.60q", verb, mark, names[:13])
			}
		}
	}
	return headerTurn(env, r, rnd, run)
}

// plain tells whether a page shows the name as it is: without what no page shows or a table's words do not
// keep, and not so long that it is cut.
func plain(name string) bool {
	return len(name) < 60 && name == strings.TrimSpace(name) && !strings.ContainsFunc(name, func(c rune) bool {
		return unicode.IsControl(c) || unicode.Is(unicode.Mn, c) || c == '\ufeff' || c == unicode.ReplacementChar
	})
}

// headerTurn gives predict files whose headers are damaged.
func headerTurn(env *Env, r *Result, rnd *rand.Rand, run func(args ...string) bool) error {
	for range 10 {
		dict := []byte("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }")
		if rnd.IntN(4) == 0 {
			shapes := []string{"(-1, 2)", "(9223372036854775807, 2)", "(3, 4611686018427387904)", "((3, 2), 2)", "()", "(0, 2)", "(3L, 2)", "(1e9, 2)"}
			dict = bytes.Replace(dict, []byte("(3, 2)"), []byte(shapes[rnd.IntN(len(shapes))]), 1)
		}
		for range rnd.IntN(3) {
			dict[rnd.IntN(len(dict))] = byte(rnd.IntN(256))
		}
		file := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(dict)))...)
		file = append(append(file, dict...), make([]byte, 48)...)
		for name, content := range map[string][]byte{"header.npy": file, "header.csv": append(append(slices.Clone(dict), ","+hostile[rnd.IntN(len(hostile))]...), "\n1,2\n"...)} {
			if err := os.WriteFile(filepath.Join(env.Temp, name), content, 0o600); err != nil {
				return err
			}
			run("predict", "--model", "names.onnx", "--data", "names.csv", "--id", "id", "--input", name)
			r.Count("headers", 1)
		}
	}
	return nil
}
