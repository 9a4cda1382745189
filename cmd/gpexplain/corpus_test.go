package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// A corpusCase is a folder of testdata/corpus: a network as PyTorch exports it, data,
// and PyTorch's own numbers in float64.
type corpusCase struct {
	dir string

	Case, Likelihood, Target, ID string
	Train, Test                  string
	WeightDecay                  float64       `json:"weight_decay"`
	PriorPrecision               float64       `json:"prior_precision"`
	NoiseVariance                float64       `json:"noise_variance"`
	InputMean                    []float64     `json:"input_mean"`
	InputSD                      []float64     `json:"input_sd"`
	TargetMean                   targetNumbers `json:"target_mean"`
	TargetSD                     targetNumbers `json:"target_sd"`
	TrainRows                    int           `json:"train_rows"`
	TestRows                     int           `json:"test_rows"`
	Parameters                   int
	TrainNLL                     float64 `json:"train_nll"`
	TrainAccuracy                float64 `json:"train_accuracy"`
	TrainRMSE                    float64 `json:"train_rmse"`
	TestAccuracy                 float64 `json:"test_accuracy"`
	TestRMSE                     float64 `json:"test_rmse"`
	GradientNorm                 float64 `json:"gradient_norm"`
	LogEvidence                  float64 `json:"log_evidence"`
	Scatter                      float64
	Outputs, Variance            [][]float64
	Probability                  [][]float64
	ClassNames                   []string `json:"class_names"`
	Learn                        []string
	Photos                       map[string]struct{ Class, Orientation int }
	Mistakes                     map[string]mistaken
}

// targetNumbers are one number a target; that of one target is written without a list.
type targetNumbers []float64

func (v *targetNumbers) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]float64)(v))
	}
	*v = make([]float64, 1)
	return json.Unmarshal(text, &(*v)[0])
}

// A mistaken says what the network is worth looked at wrongly.
type mistaken struct {
	TrainNLL      float64 `json:"train_nll"`
	TrainAccuracy float64 `json:"train_accuracy"`
	TrainRMSE     float64 `json:"train_rmse"`
	GradientNorm  float64 `json:"gradient_norm"`
}

func corpus(t testing.TB, name string) *corpusCase {
	t.Helper()
	e := &corpusCase{dir: filepath.Join("..", "..", "testdata", "corpus", name)}
	text := testref.Must(os.ReadFile(filepath.Join(e.dir, "expected.json")))(t)
	require.NoError(t, json.Unmarshal(text, e))
	return e
}

// args are the flags that name the model and the data, and nothing else.
func (e *corpusCase) args() []string {
	args := []string{"--model", filepath.Join(e.dir, "model.onnx"), "--data", filepath.Join(e.dir, e.Train)}
	if e.Test != "" {
		args = append(args, "--test-data", filepath.Join(e.dir, e.Test))
	}
	if strings.Contains(e.Target, ",") {
		args = append(args, "--target", e.Target)
	}
	if e.ID != "" {
		args = append(args, "--id", e.ID)
	}
	return args
}

// decay is the one thing that a file cannot say.
func (e *corpusCase) decay() []string {
	if e.WeightDecay == 0 {
		return nil
	}
	return []string{"--weight-decay", strconv.FormatFloat(e.WeightDecay, 'g', -1, 64)}
}

// predictions runs predict --json and returns its rows and its summary.
func predictions(t testing.TB, args ...string) ([]prediction, predictSummary) {
	t.Helper()
	r := gpexplain(t.Context(), append([]string{"predict", "--json"}, args...)...)
	require.Equal(t, 0, r.code, r.stderr)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	rows := make([]prediction, len(lines)-1)
	for i := range rows {
		rows[i] = decode[prediction](t, lines[i])
	}
	return rows, decode[predictSummary](t, lines[len(lines)-1])
}

// ordinary are the cases and the flags that they need beside the weight decay.
var ordinary = []struct {
	name  string
	flags []string
}{
	{"standardized-in-graph", nil}, {"standardized-outside", nil}, {"standardized-targets", nil}, {"two-logits", nil}, {"one-logit", nil}, {"several-labels", nil},
	{"house-prices", nil}, {"two-targets", nil}, {"all-in-graph", nil}, {"string-labels", nil}, {"pictures-colour", nil},
	{"names-in-metadata", nil}, {"weight-decay", nil}, {"learnt-scale", []string{"--learn", "0.scale"}}, {"no-metadata", nil},
	{"pictures-in-graph", nil}, {"pictures-outside", nil}, {"photo", []string{"--calibrate", "none", "--link", "probit"}},
}

// TestCorpusDefaults holds what predict says by itself of networks as PyTorch exports
// them against PyTorch's own numbers: the command finds out how inputs and targets were
// scaled, and what is no parameter.
func TestCorpusDefaults(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	for _, c := range ordinary {
		t.Run(c.name, func(t *testing.T) {
			e := corpus(t, c.name)
			rows, sum := predictions(t, append(append(append(e.args(), e.decay()...), "--at", "stated"), c.flags...)...)
			e.requireRows(t, rows)
			e.requireFit(t, &sum.Fit)
			if e.WeightDecay > 0 {
				require.Equal(t, "ok", sum.Fit.Preflight.Verdict, "%v", sum.Fit.Warnings)
			}
			if e.Likelihood != "gaussian" {
				require.InDelta(t, e.TestAccuracy, right(rows), 1e-12)
			} else if len(e.Outputs[0]) == 1 {
				require.InEpsilon(t, e.TestRMSE, rmse(rows), 1e-9)
			}
		})
	}
}

// right is the share of rows whose class is their label, or of all labels that are right.
func right(rows []prediction) float64 {
	n, all := 0, 0
	for _, r := range rows {
		for k := range r.Labels {
			if all++; r.Probability[k] > .5 == (r.Targets[k] > .5) {
				n++
			}
		}
		if r.Labels != nil {
			continue
		}
		if all++; r.Class == r.Label {
			n++
		}
	}
	return float64(n) / float64(all)
}

// rmse is the root of the mean squared error of the means.
func rmse(rows []prediction) float64 {
	sum := 0.0
	for _, r := range rows {
		d := float64(r.Mean[0] - r.Label)
		sum += d * d
	}
	return math.Sqrt(sum / float64(len(rows)))
}

// requireRows compares the first test rows. Variances are PyTorch's at θ*, and those of the command are
// at the mode of the linearized model, from which training ended by that much.
func (e *corpusCase) requireRows(t *testing.T, rows []prediction) {
	t.Helper()
	require.Len(t, rows, e.TestRows)
	for i := range e.Outputs {
		r := &rows[i]
		require.EqualValues(t, i, r.Index)
		for k, f := range e.Outputs[i] {
			require.InEpsilon(t, f, float64(r.Mean[k]), 1e-9, "mean of row %d, output %d", i, k)
			require.InEpsilon(t, e.Variance[i][k], float64(r.Covariance[k][k]), e.ended(), "variance of row %d, output %d", i, k)
		}
		if e.Probability != nil {
			for k, p := range e.Probability[i] {
				require.InDelta(t, p, float64(r.MAPProbability[k]), 1e-12, "probability of row %d, class %d", i, k)
			}
		}
	}
}

// ended is how far training ended from a mode, in parts of a variance or an evidence.
func (e *corpusCase) ended() float64 {
	if e.GradientNorm > 1e-3 {
		return .5 * e.GradientNorm
	}
	return 1e-4
}

// requireFit compares what is said of the network and its training rows.
func (e *corpusCase) requireFit(t *testing.T, f *result.Fit) {
	t.Helper()
	require.Equal(t, e.TrainRows, f.Examples)
	require.Equal(t, e.Parameters, f.Parameters)
	require.InEpsilon(t, e.PriorPrecision, float64(f.PriorPrecision), 1e-12)
	require.InDelta(t, e.GradientNorm, float64(f.GradientNorm), 1e-6*(1+e.GradientNorm))
	require.InEpsilon(t, e.LogEvidence, float64(f.LogEvidence), e.ended())
	at := f.Preflight
	require.InEpsilon(t, e.TrainNLL, float64(at.TrainNLL), 1e-9)
	if e.Likelihood == "gaussian" {
		require.InEpsilon(t, e.NoiseVariance, float64(*f.NoiseVariance), 1e-9)
		require.InEpsilon(t, e.TrainRMSE, float64(*at.TrainRMSE), 1e-9)
	} else {
		require.InDelta(t, e.TrainAccuracy, float64(*at.TrainAccuracy), 1e-12)
	}
}

// TestCorpusMistakes looks at the networks wrongly, as people do: the preflight sees what
// PyTorch's numbers say of that, and warns.
func TestCorpusMistakes(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	shape := []string{"--input-mean", "0.1307", "--input-sd", "0.3081"}
	for _, c := range []struct {
		name, mistake string
		flags         []string
		warning       string // what a warning says
	}{
		{"standardized-in-graph", "standardized-twice", []string{"--standardize", "yes"}, "--standardize no"},
		{"one-logit", "standardized-twice", []string{"--standardize", "yes"}, "it fits them with inputs as they are. Give --standardize no."},
		{"pictures-in-graph", "standardized-twice", shape, "Give --standardize no."},
		{"standardized-outside", "not-standardized", []string{"--standardize", "no"}, "it fits them with inputs standardized by the training rows. Give --standardize yes."},
		{"two-logits", "not-standardized", []string{"--standardize", "no"}, "--standardize yes"},
		{"several-labels", "not-standardized", []string{"--standardize", "no"}, "it fits them with inputs standardized by the training rows. Give --standardize yes."},
		{"pictures-outside", "not-standardized", []string{"--standardize", "no"}, "it fits them with mean 0.1307 and deviation 0.3081 (those of MNIST). Give --input-mean 0.1307 --input-sd 0.3081."},
		{"pictures-colour", "not-standardized", []string{"--standardize", "no"}, "--input-mean 0.485,0.456,0.406 --input-sd 0.229,0.224,0.225"},
		{"house-prices", "targets-not-scaled", []string{"--standardize", "yes", "--target-mean", "0"}, "--target-mean 503159 --target-sd 100011"},
		{"string-labels", "classes-swapped", []string{"--classes", "repaid,default", "--force"}, "--classes default,repaid"},
		{"standardized-targets", "targets-not-scaled", []string{"--standardize", "yes", "--target-mean", "0"}, "it was trained on scaled targets. Give --target-mean 3.5161 --target-sd 0.1165"},
		{"two-logits", "classes-swapped", []string{"--classes", "1,0", "--force"}, "the network's outputs are those of the classes in another order"},
		{"one-logit", "classes-swapped", []string{"--classes", "1,0", "--force"}, "--classes 0,1"},
	} {
		t.Run(c.name+"/"+c.mistake, func(t *testing.T) {
			e := corpus(t, c.name)
			want, ok := e.Mistakes[c.mistake]
			require.True(t, ok)
			args := append(e.args(), "--prior-precision", strconv.FormatFloat(e.PriorPrecision, 'g', -1, 64))
			if e.Likelihood == "gaussian" {
				noise := e.NoiseVariance
				if c.mistake == "targets-not-scaled" { // PyTorch's numbers are of the network's own
					noise /= e.TargetSD[0] * e.TargetSD[0]
				}
				args = append(args, "--noise-variance", strconv.FormatFloat(noise, 'g', -1, 64))
			}
			args = append([]string{"explain", "--json", "--calibrate", "none"}, append(args, c.flags...)...)
			if c.mistake == "classes-swapped" { // an error without --force
				said := refuse(t, 1, append(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--force" }), "--quiet")...)
				_, order, _ := strings.Cut(said, "; give --classes ")
				order, _, ok := strings.Cut(order, ", or --force")
				require.True(t, ok, said)
				mended := slices.Clone(args)
				mended[slices.Index(mended, "--classes")+1] = order
				require.Equal(t, "ok", decode[result.Report](t, succeed(t, append(mended, "--quiet")...)).Fit.Preflight.Verdict)
			}
			r := gpexplain(t.Context(), args...)
			require.Equal(t, 0, r.code, r.stderr)
			got := decode[result.Report](t, r.stdout).Fit
			at := got.Preflight
			require.InEpsilon(t, want.TrainNLL, float64(at.TrainNLL), 1e-6)
			require.InEpsilon(t, want.GradientNorm, float64(at.GradientNorm), 1e-6)
			if e.Likelihood == "gaussian" {
				require.InEpsilon(t, want.TrainRMSE, float64(*at.TrainRMSE), 1e-6)
			} else {
				require.InDelta(t, want.TrainAccuracy, float64(*at.TrainAccuracy), 1e-12)
			}
			require.Equal(t, "warning", at.Verdict)
			require.Contains(t, fmt.Sprint(got.Warnings), c.warning)
			require.Contains(t, r.stderr, "warning: ")
			require.Equal(t, 1, gpexplain(t.Context(), append(args, "--strict")...).code)
		})
	}
}

// TestCorpusPrecisionWithoutN checks that a prior precision that is the weight decay, and misses the factor
// N, is told from the match.
func TestCorpusPrecisionWithoutN(t *testing.T) {
	for _, name := range []string{"standardized-in-graph", "two-logits", "one-logit", "several-labels", "string-labels", "pictures-in-graph"} {
		e := corpus(t, name)
		decay := strconv.FormatFloat(e.WeightDecay, 'g', -1, 64)
		_, sum := predictions(t, append([]string{"--index", "0", "--calibrate", "none", "--prior-precision", decay}, e.args()...)...)
		says := fmt.Sprint(sum.Fit.Remarks)
		require.Contains(t, says, "Answers are at δ = "+decay+" as given", name)
		require.Contains(t, says, "If "+decay+" is the weight decay of the training, give --weight-decay "+decay, name)
	}
}

// TestCorpusSaved checks that a posterior's file remembers what is done to inputs and
// targets: answers from it are those of the fit, without a word about scaling, and a flag
// that says it again is refused.
func TestCorpusSaved(t *testing.T) {
	for _, name := range []string{"standardized-targets", "two-logits", "pictures-outside"} {
		e := corpus(t, name)
		file := filepath.Join(t.TempDir(), "a.gp")
		few := []string{"--calibrate", "none"}
		if e.Target == "" {
			few = append(few, "--test-index", rowsFile(t, "0\n7\n"))
		}
		r := gpexplain(t.Context(), append([]string{"fit", "--out", file, "--calibrate", "none"}, append(e.args(), e.decay()...)...)...)
		require.Equal(t, 0, r.code, r.stderr)
		require.Contains(t, r.stderr, "guessed ")
		want, sum := predictions(t, append(append(e.args(), e.decay()...), few...)...)
		text := succeed(t, append(append([]string{"predict", "--json", "--posterior", file}, e.args()...), few...)...)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i := range want {
			require.Equal(t, want[i].Mean, decode[prediction](t, lines[i]).Mean)
			require.Equal(t, want[i].Covariance, decode[prediction](t, lines[i]).Covariance)
		}
		got := decode[predictSummary](t, lines[len(lines)-1])
		require.Equal(t, sum.NLL, got.NLL)
		require.Equal(t, sum.Fit.Preprocessing, got.Fit.Preprocessing)
		require.Equal(t, sum.Fit.NoiseVariance, got.Fit.NoiseVariance)
		for _, flag := range []string{"--standardize=yes", "--input-mean=0", "--input-sd=1", "--target-mean=0", "--target-sd=1"} {
			require.Contains(t, refuse(t, 1, append([]string{"predict", "--posterior", file, flag}, e.args()...)...), "is not what it was fitted with")
		}
	}
}

func rowsFile(t testing.TB, text string) string {
	return write(t, filepath.Join(t.TempDir(), "rows.txt"), []byte(text))
}

// TestCorpusPhotos checks that photos of dark ink on light paper, larger than the pictures
// of the training and perhaps held sideways, are predicted as what they show, and that the
// command says what it did to them.
func TestCorpusPhotos(t *testing.T) {
	e := corpus(t, "photo")
	require.Len(t, e.Photos, 3)
	for name, want := range e.Photos {
		args := append(append([]string{"predict", "--json", "--calibrate", "none", "--link", "probit", "--input", filepath.Join(e.dir, name)}, e.args()...), e.decay()...)
		r := gpexplain(t.Context(), args...)
		require.Equal(t, 0, r.code, r.stderr)
		row := decode[prediction](t, strings.Split(r.stdout, "\n")[0])
		require.EqualValues(t, want.Class, row.Class, name)
		require.Contains(t, r.stderr, name+": ")
		require.Contains(t, r.stderr, "inverted")
		require.Equal(t, want.Orientation != 1, strings.Contains(r.stderr, "EXIF orientation"), r.stderr)
	}
}
