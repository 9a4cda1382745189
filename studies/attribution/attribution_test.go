package attribution

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/command"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// small is a study of three small networks on synthetic digits and counts.
func small(t *testing.T, dir string) *study {
	t.Helper()
	p := func(name string, classes ...int) protocol {
		return protocol{name: name, about: name + " of synthetic rows", classes: classes, train: 30, test: 4, hidden: 3, epochs: 20, batch: 16, rate: 0.01,
			optimizer: train.Adam{}, schedule: train.Cosine{}, decay: 1, grid: []float64{3, 30}}
	}
	return &study{out: io.Discard, cache: filepath.Join(dir, "cache"), records: filepath.Join(dir, "records"), data: "digits:400,100", halves: 20, seeds: 2,
		protocols: []protocol{p("two", 4, 9), p("three", 1, 4, 9), p("counts")}}
}

// files are the contents of all files below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

// TestResumes runs the study, and again after some of its steps were lost: the record is the
// same. The scores of a precision are those of the library's own method.
func TestResumes(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	require.NoError(t, small(t, dir).run(ctx))
	first := files(t, filepath.Join(dir, "records"))
	require.Len(t, first, 2)

	lost, err := filepath.Glob(filepath.Join(dir, "cache", "attribution", "answers-*", "t*-0", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, lost)
	for _, path := range lost {
		require.NoError(t, os.Remove(path))
	}
	kept := filepath.Join(dir, "cache", "attribution", "answers-*", "counts-*-0", "30-20.json")
	paths, err := filepath.Glob(kept)
	require.NoError(t, err)
	require.Len(t, paths, 1)
	before, err := os.Stat(paths[0])
	require.NoError(t, err)
	require.NoError(t, small(t, dir).run(ctx))
	require.Equal(t, first, files(t, filepath.Join(dir, "records")))
	after, err := os.Stat(paths[0])
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
}

// TestScoresAreThoseOfTheLibrary compares the scores of the command's terms with those of
// evaluate.Kernel, which goes by another posterior and combines outputs before it multiplies.
func TestScoresAreThoseOfTheLibrary(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := small(t, dir)
	var err error
	s.gpexplain, err = command.Build(ctx, dir)
	require.NoError(t, err)
	for i := range s.protocols {
		p := &s.protocols[i]
		r, err := p.open(ctx, s.data, dir)
		require.NoError(t, err)
		training, err := p.retraining(r, "")
		require.NoError(t, err)
		net, err := training.Train(ctx, evaluate.Run{})
		require.NoError(t, err)
		q := &question{protocol: p, rows: r, model: filepath.Join(dir, p.name+".onnx"), classes: mat.NewDense(p.test, 1, nil), subsets: evaluate.Subsets(p.train, p.train/2, 20, 0)}
		require.NoError(t, command.WriteModel(q.model, net, p.training()))
		q.f, err = net.Forward(ctx, r.testX)
		require.NoError(t, err)
		for k, c := range evaluate.Classes(q.f) {
			q.classes.Set(k, 0, float64(c))
		}
		// Any outcomes do.
		q.outcomes = mat.NewDense(20, p.test, nil)
		q.outcomes.Apply(func(i, j int, _ float64) float64 { return float64((7*i + 3*j) % 20) }, q.outcomes)
		got, err := s.ask(ctx, q, 3)
		require.NoError(t, err)

		lik, _ := p.likelihood()
		list, err := evaluate.Kernel{Precision: 3}.Attribute(ctx, &evaluate.Problem{Network: net, X: r.x, Y: r.y, TestX: r.testX, TestY: q.classes, Likelihood: lik, Target: evaluate.Apart{}})
		require.NoError(t, err)
		for _, a := range list {
			var predicted mat.Dense
			evaluate.PredictionsTo(&predicted, a.Scores, q.subsets)
			switch want := evaluate.Datamodel(&predicted, q.outcomes, 0).Mean; a.Name {
			case "contributions":
				require.InDelta(t, want, got.Sum.Mean, 1e-12, p.name)
			case "removal":
				require.InDelta(t, want, got.Removal.Mean, 1e-12, p.name)
			}
		}

		// Another network's outputs are refused.
		q.f = mat.DenseCopyOf(q.f)
		q.f.Set(1, 0, q.f.At(1, 0)+0.01)
		_, err = s.ask(ctx, q, 3)
		require.ErrorContains(t, err, fmt.Sprintf("output 0 of row %d", r.testRows[1]))
	}
}
