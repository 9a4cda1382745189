package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
)

// refusalTables are small tables with something wrong, or something that a model does not take.
func refusalTables() map[string]string {
	good := "u,v,y\n1,10,0\n2,30,1\n3,20,0\n4,60,1\n5,50,1\n6,40,0\n7,20,0\n8,55,1\n9,35,1\n10,15,0\n11,60,1\n12,45,0\n"
	column := func(name string, values ...string) string { // good with other targets
		lines := strings.Split(strings.TrimSpace(good), "\n")
		for i, line := range lines[1:] {
			lines[i+1] = line[:strings.LastIndex(line, ",")+1] + values[i%len(values)]
		}
		lines[0] = "u,v," + name
		return strings.Join(lines, "\n") + "\n"
	}
	before := func(name string, values ...string) string { // good with a column more in front
		lines := strings.Split(strings.TrimSpace(good), "\n")
		for i := range lines[1:] {
			lines[i+1] = values[i%len(values)] + "," + lines[i+1]
		}
		lines[0] = name + "," + lines[0]
		return strings.Join(lines, "\n") + "\n"
	}
	utf16 := "\xff\xfe"
	for _, b := range []byte(good) {
		utf16 += string([]byte{b, 0})
	}
	return map[string]string{
		"good.csv": good, "rows.csv": "u,v\n1,20\n", "shorter.csv": good[:len(good)-len("12,45,0\n")], "more.csv": "u,v,y\n3,25,1\n", "renamed.csv": "c,d\n1,2\n", "other.csv": "c,d,y\n1,2,0\n3,4,1\n",
		"empty.csv": "", "header.csv": "u,v,y\n", "numbers.csv": "1,2,0\n3,4,1\n", "nan.csv": "u,v,y\n1,2,0\n3,NaN,1\n", "infinite.csv": "u,v,y\n1,2,0\n3,inf,1\n",
		"gap.csv": "u,v,y\n1,,0\n3,4,1\n", "comma.csv": "u,v,y\n1,\"2,5\",0\n3,4,1\n", "short.csv": "u,v,y\n1,0\n3,4,1\n", "quote.csv": "u,v,y\n1,\"2,0\n", "one.csv": "u\n1\n",
		"narrow.csv": "u,y\n1,0\n2,1\n", "wide.csv": before("z", "5", "6", "7"), "dates.csv": before("day", "2024-05-01", "2024-05-02"), "ids.csv": before("name", "ann", "bob", "cem"),
		"first.csv": "y,u,v\nno,1,10\nyes,2,30\nno,3,20\nyes,4,60\n", "semicolons.csv": strings.ReplaceAll(good, ",", ";"), "tabs.csv": strings.ReplaceAll(good, ",", "\t"), "utf16.csv": utf16,
		"twice.csv": "u,u,y\n1,2,0\n3,4,1\n", "words.csv": column("y", "no", "yes"), "three.csv": column("y", "0", "1", "2"), "three-words.csv": column("y", "lo", "mid", "up"),
		"real.csv": column("y", "0.5", "1.5", "2.25"), "zeros.csv": column("y", "0"), "ones.csv": column("y", "1"), "sparse.csv": column("y", "0", "2"), "fromone.csv": column("y", "1", "2", "3"),
		"five.csv": column("y", "0", "1", "2", "3", "4"), "negative.csv": column("y", "0", "-1"), "onehot.csv": strings.ReplaceAll(column("p,q,r", "1,0,0", "0,1,0", "0,0,1"), "\r", ""),
		"beyond.txt": "3\n99\n", "nothing.svm": "", "bad.npy": "\x93NUMPY and then nothing", "empty.onnx": "",
	}
}

// setUpRefusals writes the files of testdata/refusals.txt to the current directory.
func setUpRefusals(t *testing.T) {
	t.Helper()
	for _, name := range []string{"corpus", "files", "heads", "writes"} {
		require.NoError(t, os.Symlink(filepath.Join(repository, "testdata", name), name))
	}
	for name, content := range refusalTables() {
		write(t, name, []byte(content))
	}
	for _, line := range []string{
		"train --data good.csv --arch mlp:3-1 --activation tanh --epochs 0 --lbfgs 20 --out two.onnx",
		"train --data three.csv --arch mlp:3-3 --activation tanh --epochs 0 --lbfgs 20 --out three.onnx",
		"train --data real.csv --arch mlp:3-1 --activation tanh --epochs 0 --lbfgs 20 --out real.onnx",
		"train --data digits:60,20 --arch autoencoder:4-2 --epochs 1 --lbfgs 0 --out auto.onnx",
		"fit --model two.onnx --data good.csv -o two.gp",
		"fit --model two.onnx --data good.csv --method nystrom --inducing 5 -o sparse.gp",
		"fit --model two.onnx --data good.csv --bundle -o bundle.gp",
		"fit --model two.onnx --data good.csv --method nystrom --inducing 5 --bundle --without-inputs -o light.gp",
		"fit --model two.onnx --data good.csv --select-only --method nystrom --inducing 5 -o z.gp",
		"fit --model two.onnx --data good.csv --inducing-file z.gp --shard 0/2 -o part0.sums",
		"fit --model two.onnx --data good.csv --inducing-file z.gp --shard 1/2 -o part1.sums",
	} {
		r := gpexplain(t.Context(), strings.Fields(line)...)
		require.Equal(t, 0, r.code, "%s: %s", line, r.stderr)
	}
	for _, name := range []string{"two.gp", "two.onnx"} {
		text := read(t, name)
		write(t, "cut"+filepath.Ext(name), []byte(text[:len(text)/2]))
	}
}

// mixing writes the networks of testdata/operators that mix examples to the current directory and returns their names.
func mixing(t *testing.T) (names []string) {
	t.Helper()
	zipped, err := gzip.NewReader(strings.NewReader(read(t, filepath.Join(repository, "testdata", "operators", "mixing.tar.gz"))))
	require.NoError(t, err)
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		if filepath.Ext(h.Name) == ".onnx" {
			name := strings.ReplaceAll(h.Name, "/", "-")
			write(t, name, testref.Must(io.ReadAll(r))(t))
			names = append(names, name)
		}
	}
}

// An edit sets a flag of a command line, to nothing where it is a switch, or takes it out.
type edit struct {
	flag, value string
	drop        bool
	filled      bool   // the value is one of fills
	word        string // in place of the flag: this word of the command line becomes value
}

func (e edit) String() string {
	switch {
	case e.word != "":
		return e.word + " → " + e.value
	case e.drop:
		return "without --" + e.flag
	case e.value == "":
		return "--" + e.flag
	}
	return "--" + e.flag + "=" + e.value
}

// apply is the command line after a remedy, nil where it has nothing to change.
func apply(switches map[string]bool, words []string, remedy []edit) []string {
	words = slices.Clone(words)
	for _, e := range remedy {
		if e.word != "" {
			whole := regexp.MustCompile(`(^|[=,])` + regexp.QuoteMeta(e.word) + `(,|$)`)
			i := slices.IndexFunc(words, whole.MatchString)
			if i < 0 {
				return nil
			}
			words[i] = whole.ReplaceAllString(words[i], "${1}"+e.value+"${2}")
			continue
		}
		i := slices.IndexFunc(words, func(w string) bool {
			name, _, _ := strings.Cut(w, "=")
			return name == "--"+e.flag || e.flag == "out" && name == "-o"
		})
		if i >= 0 {
			end := i + 1
			if !strings.Contains(words[i], "=") && end < len(words) && !strings.HasPrefix(words[end], "-") && !switches[e.flag] {
				end++
			}
			words = slices.Delete(words, i, end)
		} else if e.drop {
			return nil
		}
		if !e.drop {
			word := "--" + e.flag
			if e.value != "" {
				word += "=" + e.value
			}
			words = append(words, word)
		}
	}
	return words
}

// flagsOf are the flags of a command line with their values, in order.
func flagsOf(words []string) []string {
	return slices.Sorted(strings.SplitSeq(strings.ReplaceAll(strings.Join(words, " "), "=", " "), " --"))
}

// fills are values for flags that a remedy names without one, or with a placeholder, where a line of refusals.txt says
// none. Those that only who has the data knows, such as a column, are advice unless the line says them.
var fills = map[string][]string{
	"posterior": {"two.gp"}, "out": {"filled.out"}, "model": {"two.onnx"}, "data": {"good.csv"}, "test-data": {"good.csv"}, "valid-data": {"good.csv"}, "inducing-file": {"z.gp"},
	"shard": {"0/2"}, "pool": {"good.csv"}, "inducing": {"5"}, "train-count": {"6"}, "max-memory": {"1GiB"}, "prior-precision": {"5"}, "within": {"0.2"}, "runtime": {"."}, "page": {"filled.html"},
	"input": {"rows.csv"}, "tune-prior": {"loo"}, "without": {"1"}, "append": {"more.csv"}, "likelihood": {"gaussian"}, "latent": {"Dense2_Gemm1"}, "decoder": {"auto.onnx"},
}

// placeholders are what stands for the variable part of a value.
var placeholders = strings.NewReplacer(":R", ":4", ":WIDTHS", ":3-1")

var (
	otherCommand = regexp.MustCompile(`gpexplain [a-z]+[^;,]*`)
	flagSaid     = regexp.MustCompile(`(?:^|[ (])(--[a-z][a-z-]*|-o)(?:[ =]('[^']*'|"[^"]*"|[^\s;]+))?`)
	alsoListed   = regexp.MustCompile(`^(?:, or | or |, )([a-z][a-z-]*)`)
	noValue      = strings.Fields("with and or if that for from in of to which too is one the a needs where as an not by are it exclude have has says takes names so on apart are both than too")
	placeholder  = regexp.MustCompile(`^[A-Z][A-Z/=.a-z]*$`)
	mustBe       = regexp.MustCompile(`^--([a-z-]+) "([^"]*)" must be ([^;]*)`)
	didYouMean   = regexp.MustCompile(`did you mean ([^?]*)\?`)
	chooseFrom   = regexp.MustCompile(`choose from ((?:"[^"]*"(?:, )?)+)`)
	quoted       = regexp.MustCompile(`"([^"]*)"`)
	isFor        = regexp.MustCompile(`^--([a-z-]+)(?: [^ ]+)? is for (--(?:[^;:]|:[^ ])*)`)
	isNeeded     = regexp.MustCompile(`^(--[a-z-]+|-o) \S+ is needed|needs (--[a-z-]+|-o) [A-Z/]+`)
	excludes     = regexp.MustCompile(`^--([a-z-]+)(?: \S+)? and --([a-z-]+) exclude each other`)
	unknownFlag  = regexp.MustCompile(`^unknown flag: --([a-z-]+)`)
	leaveOut     = regexp.MustCompile(`leave --([a-z-]+) out`)
	firstFlag    = regexp.MustCompile(`--([a-z-]+)`)
	orValue      = regexp.MustCompile(`, or |, | or `)
)

// A remedyReader reads what a message says to type.
type remedyReader struct {
	switches map[string]bool     // flags without a value
	fill     map[string][]string // see fills
}

// flags are the flags that a text names, each with every value that it names for it, as remedies of their own; what
// follows at once or after "and" belongs to the remedy before it.
func (r *remedyReader) flags(text string) (remedies [][]edit) {
	text = otherCommand.ReplaceAllString(text, "")
	end := -1
	for _, m := range flagSaid.FindAllStringSubmatchIndex(text, -1) {
		flag := strings.TrimPrefix(text[m[2]:m[3]], "--")
		if flag == "-o" {
			flag = "out"
		}
		value, last := "", m[3]
		if m[4] >= 0 {
			value = strings.TrimRight(text[m[4]:m[5]], ",.:?)")
		}
		var values []string
		filled := false
		switch {
		case r.switches[flag]:
			values = []string{""}
		case value == "" || slices.Contains(noValue, value) || strings.HasPrefix(value, "-") || placeholder.MatchString(value):
			filled = true
			if values = r.fill[flag]; values == nil {
				values = fills[flag]
			}
		default:
			values, last = []string{placeholders.Replace(strings.Trim(value, `'"`))}, m[4]+len(value)
			for next := alsoListed.FindStringSubmatch(text[last:]); next != nil && slices.Contains(remedyValues[flag], next[1]); next = alsoListed.FindStringSubmatch(text[last:]) {
				values, last = append(values, next[1]), last+len(next[0])
			}
		}
		joined := end >= 0 && regexp.MustCompile(`^(, and|,? and [^,;]*| *)$`).MatchString(strings.TrimRight(text[end:m[2]], " ")) && len(remedies) > 0 && len(values) == 1
		for _, v := range values {
			if e := (edit{flag: flag, value: v, filled: filled}); joined {
				remedies[len(remedies)-1] = append(remedies[len(remedies)-1], e)
			} else {
				remedies = append(remedies, []edit{e})
			}
		}
		end = last
	}
	return remedies
}

// remedyValues are words that a message lists after the first value of a flag.
var remedyValues = map[string][]string{
	"method": option.Values("method"), "calibrate": option.Values("calibrate"), "structure": option.Values("structure"), "inference": option.Values("inference"), "likelihood": option.Values("likelihood"),
	"select": {"uniform", "stratified", "trace", "greedy"}, "schedule": {"step", "plateau"},
}

// read returns the remedies of a message that are flags, values or words to type, each with all that belongs to it; the
// others are advice. A message says what is wrong, and after the first semicolon what to do. That flags exclude each
// other, are needed or are for others says what to do too.
func (r *remedyReader) read(message string) (remedies [][]edit) {
	wrong, advice, _ := strings.Cut(message, "; ")
	var named []string
	for _, m := range firstFlag.FindAllStringSubmatch(wrong, -1) {
		named = append(named, m[1])
	}
	drop := func(flags ...string) {
		for _, f := range flags {
			remedies = append(remedies, []edit{{flag: f, drop: true}})
		}
	}
	if m := excludes.FindStringSubmatch(wrong); m != nil {
		drop(m[1], m[2])
	}
	if m := isFor.FindStringSubmatch(wrong); m != nil {
		for _, clause := range strings.Split(strings.Split(m[2], ", not")[0], ", or ") {
			remedies = append(remedies, r.flags(clause)...)
		}
		drop(m[1])
	}
	if m := isNeeded.FindStringSubmatch(wrong); m != nil {
		remedies = append(remedies, r.flags(m[1]+m[2])...)
	}
	if m := mustBe.FindStringSubmatch(wrong); m != nil {
		for _, v := range orValue.Split(m[3], -1) {
			if !strings.Contains(v, " ") {
				remedies = append(remedies, []edit{{flag: m[1], value: placeholders.Replace(v)}})
			}
		}
	}
	if m := leaveOut.FindStringSubmatch(advice); m != nil {
		drop(m[1])
		advice = leaveOut.ReplaceAllString(advice, "")
	}
	if m := didYouMean.FindStringSubmatch(message); m != nil {
		flag := unknownFlag.FindStringSubmatch(wrong)
		if word := quoted.FindStringSubmatch(wrong); flag != nil {
			remedies = append(remedies, []edit{{word: "--" + flag[1], value: m[1]}})
		} else if word != nil {
			remedies = append(remedies, []edit{{word: word[1], value: placeholders.Replace(m[1])}})
		}
		return remedies
	}
	if m, word := chooseFrom.FindStringSubmatch(advice), quoted.FindStringSubmatch(wrong); m != nil && word != nil {
		for _, v := range quoted.FindAllStringSubmatch(m[1], 3) {
			remedies = append(remedies, []edit{{word: word[1], value: v[1]}})
		}
	}
	more := r.flags(advice)
	if len(named) > 0 && (strings.Contains(advice, "leave it out, and ") || strings.Contains(advice, "leave it out")) {
		if strings.Contains(advice, "leave it out, and ") && len(more) > 0 {
			more[0] = append([]edit{{flag: named[0], drop: true}}, more[0]...)
		} else {
			drop(named[0])
		}
	}
	if strings.Contains(advice, "leave one of them out") && len(named) > 1 {
		drop(named[:2]...)
	}
	return append(remedies, more...)
}

var ofValues = regexp.MustCompile(`"[^"]*"|[0-9][0-9.,:e+/-]*`)

// refusalKind is what is wrong by a message, without the values in it.
func refusalKind(message string) string {
	wrong, _, _ := strings.Cut(message, "; ")
	return ofValues.ReplaceAllString(wrong, "#")
}

// TestRemedies types what refusals say to type, and demands progress: no remedy leads to a refusal that was there
// before, nor to a flag that does not exist. From the next refusal it goes on, but takes nothing back.
func TestRemedies(t *testing.T) {
	testref.Long(t, "takes hundreds of command lines; run without -short")
	r := &remedyReader{switches: map[string]bool{}}
	for _, c := range newRoot(console.New(nil, io.Discard, io.Discard)).Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { r.switches[f.Name] = r.switches[f.Name] || f.Value.Type() == "bool" })
	}
	t.Chdir(t.TempDir())
	setUpRefusals(t)
	results := map[string]string{} // of command lines
	refusal := func(words []string) string {
		line := strings.Join(words, " ")
		message, known := results[line]
		if !known {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if x := gpexplain(ctx, words...); x.code != 0 {
				lines := strings.Split(strings.TrimSpace(x.stderr), "\n")
				message = strings.TrimPrefix(lines[len(lines)-1], "gpexplain: ")
			}
			results[line] = message
		}
		return message
	}
	refusals, carried, advice := map[string]bool{}, 0, 0
	var follow func(words []string, message string, kinds []string, before []edit)
	follow = func(words []string, message string, kinds []string, before []edit) {
		for _, remedy := range r.read(message) {
			undone := slices.ContainsFunc(remedy, func(e edit) bool {
				return slices.ContainsFunc(before, func(b edit) bool { return e.flag != "" && e.flag == b.flag })
			})
			if undone {
				continue
			}
			next := apply(r.switches, words, remedy)
			if remedy[0].filled && slices.Equal(flagsOf(next), flagsOf(words)) {
				continue // for lack of another file
			}
			at := fmt.Sprintf("gpexplain %s\n\t%s\n\t%v", strings.Join(words, " "), message, remedy)
			carried++
			if next == nil {
				t.Errorf("%s\n\thas nothing to change", at)
				continue
			}
			then := refusal(next)
			if then == "" {
				continue
			}
			if refusals[refusalKind(then)] = true; slices.Contains(kinds, refusalKind(then)) || strings.HasPrefix(then, "unknown flag") {
				t.Errorf("%s\n\tleads to: %s", at, then)
				continue
			}
			if len(kinds) < 3 {
				follow(next, then, append(slices.Clone(kinds), refusalKind(then)), append(slices.Clone(before), remedy...))
			}
		}
	}
	lines := read(t, filepath.Join(repository, "cmd", "gpexplain", "testdata", "refusals.txt"))
	for _, name := range mixing(t) {
		lines += "inspect --model " + name + "\n"
	}
	for line := range strings.Lines(lines) {
		text, said, _ := strings.Cut(strings.TrimSpace(line), " | ")
		if text == "" || text[0] == '#' {
			continue
		}
		r.fill = map[string][]string{}
		for _, f := range strings.Fields(said) {
			name, value, _ := strings.Cut(f, "=")
			r.fill[name] = append(r.fill[name], value)
		}
		words := strings.Fields(text)
		message := refusal(words)
		if message == "" {
			t.Errorf("gpexplain %s is not refused", text)
			continue
		}
		require.NotContains(t, message, "Options.", "a name of the library")
		kind := refusalKind(message)
		refusals[kind] = true
		if len(r.read(message)) == 0 {
			advice++
		}
		follow(words, message, []string{kind}, nil)
	}
	require.Greater(t, len(refusals), 150)
	t.Logf("%d kinds of refusals; %d remedies typed; %d command lines of which the refusal has advice alone", len(refusals), carried, advice)
}
