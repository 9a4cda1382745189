// Package doc_test runs every example of the documentation and of the help.
package doc_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// A standIn is what a test runs for part of an example that takes a download, another
// program or minutes.
type standIn struct {
	part    *regexp.Regexp
	instead string // "true" does nothing
	why     string
}

// standIns are all of them. Every other line of an example is run as it is.
var standIns = []standIn{
	{regexp.MustCompile(`^go install .*@latest`), "true", "it takes the network, and installs what is tested here"},
	{regexp.MustCompile(`^go run \./cmd/gpexplain `), "gpexplain ", "this binary is what it builds"},
	{regexp.MustCompile(`^gpexplain serve`), "bash $REPOSITORY/cmd/gpexplain/testdata/serve_once.sh", "it answers until it is told to end"},
	{regexp.MustCompile(`^go test -timeout 20m \./\.\.\.`), "true", "it is what runs this test"},
	{regexp.MustCompile(`^go run \./doc/examples.*`), "true", "the tests of doc/examples run it"},
	{regexp.MustCompile(`^git clone https://github.com/funcgp/funcgp`), "mkdir -p funcgp/testdata && cp -r $REPOSITORY/doc funcgp && cp -r $REPOSITORY/testdata/corpus funcgp/testdata", "it takes the network"},
	{regexp.MustCompile(`^python3 train\.py`), "cp $REPOSITORY/testdata/corpus/string-labels/model.onnx loans.onnx", "PyTorch is not needed to run the tests: its export of a like network is"},
	{regexp.MustCompile(`--data mnist\b`), "--data digits:60,30", "MNIST is downloaded, and takes minutes"},
	{regexp.MustCompile(`--train-count 55000\b`), "--train-count 50", "the same"},
	{regexp.MustCompile(`--train-count 1500\b`), "--train-count 200 --epochs 2 --lbfgs 5", "half a minute of training"},
	{regexp.MustCompile(`--epochs 40\b`), "--epochs 1", "the same"},
	{regexp.MustCompile(`^gpexplain audit --posterior\b`), "command gpexplain audit --posterior", "the next line is not for what was fitted before"},
	{regexp.MustCompile(`^gpexplain audit\b`), "gpexplain audit --train-count 200", "seconds of fitting, by which other rows are audited"},
	{regexp.MustCompile(`--train-count 300\b`), "--train-count 100", "seconds for each fit"},
	{regexp.MustCompile(`--data digits --index 3\b`), "--data digits:400,100 --index 3", "the digits that the networks here are trained on"},
	{regexp.MustCompile(`--inducing 200\b`), "--inducing 20", "the same"},
	{regexp.MustCompile(`^gpexplain validate\b`), "gpexplain validate --freeze Dense1.weight", "seconds for each matrix of all its parameters"},
	{regexp.MustCompile(`--method nystrom --tune-prior\b`), "--method nystrom --inducing 20 --tune-prior", "seconds for each precision that is tried"},
	{regexp.MustCompile(`--method nystrom  +#`), "--method nystrom --inducing 20 #", "seconds of fitting"},
	{regexp.MustCompile(`~/\.local/share/man`), "man", "a test writes nothing to the home of who runs it"},
}

// block finds code in a page.
var block = regexp.MustCompile("(?ms)^```(sh|python)\n(.*?)^```")

// shownBy returns the examples of a page of help or of Go documentation: the lines that
// begin with the command.
func shownBy(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "//"))
		if strings.HasPrefix(line, "gpexplain ") && !strings.Contains(line, " [") { // a synopsis has brackets
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// ownWork finds the commands whose work stands in the line alone: they read no file, and
// write none but a page that no other line reads.
var ownWork = regexp.MustCompile(`^gpexplain (?:explain|predict|importances|audit|evidence|validate|inspect)(?: --html page\.html| --?[a-z-]+| [0-9][0-9,-]*)*(?: +#.*)?$`)

// ownRows finds the commands that are about all training rows of the built-in digits, and otherRows what makes the rows
// others: fewer of the digits argue as well, in an eighth of the time.
var (
	ownRows   = regexp.MustCompile(`^gpexplain (?:explain|predict|importances|evidence|fit)\b`)
	otherRows = regexp.MustCompile(`--(?:data|model|posterior|train-count|inducing-file|without|flip)\b`)
)

// script makes a script of examples, each line with its stand-ins, of which it counts
// the uses. What another page shows too, and does not depend on where it stands, is run
// once.
func script(text string, used map[string]int, ran map[string]bool) string {
	out := []string{"set -ex"}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		for _, s := range standIns {
			if s.part.MatchString(line) {
				used[s.part.String()]++
				line = s.part.ReplaceAllLiteralString(line, s.instead)
			}
		}
		if ownRows.MatchString(line) && !otherRows.MatchString(line) {
			line = ownRows.FindString(line) + " --train-count 100" + line[len(ownRows.FindString(line)):]
		}
		if ownWork.MatchString(line) {
			command, _, _ := strings.Cut(line, "#")
			command = strings.TrimSpace(command)
			if ran[command] {
				continue
			}
			ran[command] = true
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n"
}

// repository is the root of the repository. Tests change their directory, so it is
// made absolute before any runs; an error would show in each path.
var repository, _ = filepath.Abs("..")

// bin holds the command, built from this repository.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "gpexplain")
	if err == nil {
		bin = dir
		build := exec.Command("go", "build", "-o", filepath.Join(bin, "gpexplain"), "./cmd/gpexplain")
		build.Dir, build.Stderr = repository, os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

// run runs a script in the current directory and returns what it writes. Examples call the
// command gpexplain.
func run(t *testing.T, script string, interpreter ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), interpreter[0], interpreter[1:]...)
	c.Env = append(os.Environ(), "REPOSITORY="+repository, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	c.Stdin = strings.NewReader(script)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s\n%s", script, out)
	require.NotContains(t, string(out), "panic:")
	return string(out)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text := testref.Must(os.ReadFile(filepath.Join(path...)))(t)
	return string(text)
}

// verb finds the verbs in the command's help.
var verb = regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`)

// examplePages are all pages with examples.
func examplePages(t *testing.T) map[string]string {
	pages := map[string]string{}
	files := testref.Must(filepath.Glob(filepath.Join(repository, "doc", "*.md")))(t)
	for _, file := range append(files, filepath.Join(repository, "README.md")) {
		pages[filepath.Base(file)] = read(t, file)
	}
	pages["package documentation"], _, _ = strings.Cut(read(t, repository, "cmd", "gpexplain", "main.go"), "\npackage main")
	pages["help"] = run(t, "gpexplain help", "bash")
	for _, m := range verb.FindAllStringSubmatch(pages["help"], -1) {
		pages["help "+m[1]] = run(t, "gpexplain help "+m[1], "bash")
	}
	return pages
}

// ownFiles writes what the examples on the page of a verb take as the user's own.
func ownFiles(t *testing.T, page string) {
	train := func(out string, more ...string) {
		run(t, "gpexplain train --quiet --data digits:400,100 --epochs 1 --lbfgs 5 --out "+out+" "+strings.Join(more, " "), "bash")
	}
	if strings.Contains(page, "encoder.onnx") {
		train("net.onnx", "--arch autoencoder:8-2 --lbfgs 0 --train-count 60")
		writeCoder(t)
	} else if strings.Contains(page, "--model net.onnx") {
		train("net.onnx", "--classes 4,9")
	}
	if strings.Contains(page, "a.onnx,b.onnx,c.onnx") {
		for _, name := range []string{"a", "b", "c"} {
			train(name+".onnx", "--classes 4,9 --seed", strconv.Itoa(int(name[0])))
		}
	}
	if strings.Contains(page, "lenet.onnx") {
		train("lenet.onnx", "--data digits:60,30 --train-count 50 --arch lenet5 --lbfgs 0")
	}
	var table, splits strings.Builder
	fmt.Fprintln(&table, "x,y")
	fmt.Fprintln(&splits, "split,row,part")
	for i := range 40 {
		fmt.Fprintf(&table, "%d,%g\n", i, float64(7*i%11)/4)
		fmt.Fprintf(&splits, "0,%d,%s\n", i, []string{"train", "train", "train", "train", "train", "train", "valid", "test"}[i/5])
	}
	write(t, "table.csv", []byte(table.String()))
	write(t, "table.splits.csv", []byte(splits.String()))
	write(t, "wrong.txt", []byte("1\n"))
	digit := image.NewGray(image.Rect(0, 0, 28, 28))
	for y := range 28 {
		for x := range 28 {
			digit.SetGray(x, y, color.Gray{Y: 255})
			if y > 5 && y < 22 && (x == 14 || x == 15) {
				digit.SetGray(x, y, color.Gray{})
			}
		}
	}
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, digit))
	write(t, "digit.png", picture.Bytes())
}

// writeCoder writes an autoencoder without training, encoder.onnx and decoder.onnx.
func writeCoder(t *testing.T) {
	t.Helper()
	image, code := network.Shape{1, 28, 28}, network.Shape{2}
	for name, net := range map[string]func() (*network.Network, error){
		"encoder.onnx": func() (*network.Network, error) {
			return network.Sequential(image, network.Flatten{}, network.Dense{Units: 2})
		},
		"decoder.onnx": func() (*network.Network, error) { return network.Sequential(code, network.Dense{Units: 784}) },
	} {
		net := testref.Must(net())(t)
		var b bytes.Buffer
		require.NoError(t, net.WriteONNX(&b))
		write(t, name, b.Bytes())
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// Every example of README.md, doc, the package's documentation and the help works, one
// after the other in a directory of the page's own.
func TestExamples(t *testing.T) {
	testref.Long(t, "a minute of work, and many times that under the race detector")
	used, once, count, ran := map[string]int{}, map[string]bool{}, 0, 0
	pages := examplePages(t)
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			ran++
			t.Chdir(t.TempDir())
			if !strings.HasSuffix(name, ".md") {
				if strings.HasPrefix(name, "help ") {
					ownFiles(t, page)
				}
				lines := shownBy(page)
				count += strings.Count(lines, "\n")
				run(t, script(lines, used, once), "bash")
				return
			}
			for _, m := range block.FindAllStringSubmatch(page, -1) {
				if m[1] == "sh" {
					count += strings.Count(m[2], "\n")
					run(t, script(m[2], used, once), "bash")
				} else if _, err := exec.LookPath("python3"); err == nil {
					run(t, m[2], "python3")
				} else {
					t.Log("examples in Python are not run: there is no python3")
				}
			}
		})
	}
	if ran < len(pages) {
		return // go test -run chose some
	}
	require.Greater(t, count, 35)
	for _, s := range standIns {
		require.NotZero(t, used[s.part.String()], "no example has %s any more", s.part)
	}
}
