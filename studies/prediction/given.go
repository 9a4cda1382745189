package prediction

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/studies/command"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/steps"
	"github.com/funcgp/funcgp/studies/table"
	"github.com/funcgp/funcgp/studies/trained"
)

// A givenSet is networks that were trained elsewhere on rows of one kind, on several splits or by several seeds.
type givenSet struct {
	name  string
	table string   // of package trained, whose recipe trains a network again; "" where there is none
	nets  []string // files of networks in the reference, without .onnx
	index string   // file of the rows that a network of pictures was trained on, in its folder; "" for tables
	count int      // the first rows alone of the index; 0 for all
}

var givenSets = []givenSet{
	{name: "vehicle, BatchNorm, three splits", table: "vehicle-bn", nets: []string{"defaults/vehicle0", "defaults/vehicle1", "defaults/vehicle2"}},
	{name: "vehicle, BatchNorm", table: "vehicle-bn", nets: []string{"defaults/veh_bn"}},
	{name: "vehicle, folded", table: "vehicle-bn", nets: []string{"defaults/veh_bn_folded"}},
	{name: "pima, BatchNorm", table: "pima-bn", nets: []string{"defaults/pima_bn"}},
	{name: "pima, folded", table: "pima-bn", nets: []string{"defaults/pima_bn_folded"}},
	{name: "sonar", table: "sonar", nets: []string{"defaults/sonar0", "defaults/sonar1"}},
	{name: "sonar, BatchNorm", table: "sonar-bn", nets: []string{"defaults/sonar_bn"}},
	{name: "sonar, folded", table: "sonar-bn", nets: []string{"defaults/sonar_bn_folded"}},
	{name: "boston", table: "boston", nets: []string{"defaults/boston0", "defaults/boston1"}},
	{name: "boston, BatchNorm", table: "boston-bn", nets: []string{"defaults/boston_bn"}},
	{name: "boston, folded", table: "boston-bn", nets: []string{"defaults/boston_bn_folded"}},
	{name: "servo", table: "servo", nets: []string{"defaults/servo0", "defaults/servo1", "defaults/servo2"}},
	{name: "counts", table: "counts", nets: []string{"defaults/phd0", "defaults/phd1"}},
	{name: "wine", table: "wine", nets: []string{"match/wine-adam1e-4", "match/wine-adamw"}},
	{name: "breast cancer", table: "breast-cancer", nets: []string{"match/breast_cancer-adam1e-4", "match/breast_cancer-adamw"}},
	{name: "five overlapping classes", table: "overlap5", nets: []string{"match/overlap5-adamw"}},
	{name: "digits", table: "digits", nets: []string{"match/digits-adam1e-4"}},
	{name: "diabetes", table: "diabetes", nets: []string{"match/diabetes-adam1e-4", "match/diabetes-adamw"}},
	{name: "sine with noise that varies", table: "hetero", nets: []string{"match/hetero-adam1e-4", "match/hetero-adamw"}},
	{name: "4/9, Adam", nets: []string{"match/mnist49-adam"}, index: "mnist49-train-index.txt"},
	{name: "4/9, SGD", nets: []string{"match/mnist49-sgd"}, index: "mnist49-train-index.txt"},
	{name: "4/9, long", nets: []string{"match/mnist49-long"}, index: "mnist49-train-index.txt"},
	{name: "thesis CNN", nets: []string{"thesis-cnn/model"}, index: "reference.safetensors"},
	{name: "thesis CNN, a third of its rows", nets: []string{"thesis-cnn/model"}, index: "reference.safetensors", count: 1000},
}

// A given is one network: figures of the test rows, of regressions in deviations of the training targets.
type given struct {
	Name                                 string
	Network, Default                     figures
	Temperature, Best                    result.Float // NLL by a held-out fifth, and at the best scales of the test rows
	OverNetwork, OverTemperature         result.Float // NLL of the default less that
	NetworkSE, TemperatureSE             result.Float // standard errors of these differences over test rows; NaN where unknown
	Remainder, DefaultTau, DefaultS, Fit result.Float // ρ, τ, s and δ
}

// RunGiven is the study of given networks with its flags.
func RunGiven(ctx context.Context, out io.Writer, args []string) (err error) {
	s := &study{out: out}
	f := flag.NewFlagSet("defaults", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.cache, "cache", "cache", "`DIR` of the results of steps")
	f.StringVar(&s.records, "out", "records", "`DIR` of the record")
	f.StringVar(&s.reference, "shared", "../../shared", "`DIR` of the reference and of the data")
	f.StringVar(&s.program, "program", "", "`FILE` of the gpexplain that is asked (default built from the sources)")
	f.StringVar(&s.only, "only", "", "`TEXT` in the names of the sets (default all)")
	if err := f.Parse(args); err != nil {
		return err
	}
	s.dir = filepath.Join(s.cache, "defaults")
	if s.program == "" {
		s.gpexplain, err = command.Build(ctx, s.cache)
	} else {
		s.gpexplain, err = command.Open(s.program)
	}
	if err != nil {
		return err
	}
	t := &table.Table{Header: []string{"network", "nll_network", "nll_temperature", "nll_default", "nll_best", "over_network", "se", "over_temperature", "se", "ece_network", "ece", "coverage", "rmse", "remainder", "tau", "s", "precision"}}
	md := &table.Table{Header: []string{"set", "network", "temperature", "default", "best", "ECE, network", "ECE", "coverage of 90 %", "RMSE", "default less network", "default less temperature", "missed"}}
	for i := range givenSets {
		p := &givenSets[i]
		if !strings.Contains(p.name, s.only) {
			continue
		}
		var list []given
		for _, name := range p.nets {
			key := strings.ReplaceAll(fmt.Sprintf("%s-%d", name, p.count), "/", "-")
			g, err := steps.Do(ctx, filepath.Join(s.dir, "answers-"+s.gpexplain.Version()), key, func(ctx context.Context) (given, error) { return s.given(ctx, p, name) })
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(out, "%s: network %.4f, temperature %.4f, default %.4f, best %.4f, ρ %.3g, τ %.3g, s %.3g\n", name, g.Network.NLL, g.Temperature, g.Default.NLL, g.Best, g.Remainder, g.DefaultTau, g.DefaultS)
			t.Add(key, float64(g.Network.NLL), float64(g.Temperature), float64(g.Default.NLL), float64(g.Best), float64(g.OverNetwork), float64(g.NetworkSE), float64(g.OverTemperature), float64(g.TemperatureSE),
				float64(g.Network.ECE), float64(g.Default.ECE), float64(g.Default.Coverage), float64(g.Default.RMSE), float64(g.Remainder), float64(g.DefaultTau), float64(g.DefaultS), float64(g.Fit))
			list = append(list, g)
		}
		md.Add(summary(p.name, list)...)
	}
	if err := t.WriteCSV(s.records, "defaults.csv"); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.records, "defaults.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, givenAbout+md.Markdown())
		return err
	})
}

const givenAbout = `# What the default predicts with networks that are given

	go run ./gpstudies defaults

Test rows of the networks of the reference, means over the networks of a set. *network*: g⁻¹(f), of a regression with σ² the mean of squares on the training rows. *temperature*:
τ or σ² by a held-out fifth, of a network trained on the other four: by the reference's own figures, or else by a network that is trained here by the recipe of the table
(Adam, 200 epochs; counts have none). *best*: s and τ ≤ 1, or s and t, that the test rows choose. Regressions in deviations of the training targets. Differences with their standard errors over test
rows, where those are known. *missed*: the default is above the network by more than .003, or above the temperature by more than .02, and by more than two standard errors.

`

// summary is the row of a set: means over its networks, and what it misses.
func summary(name string, list []given) []any {
	mean := func(of func(*given) result.Float) float64 {
		var v []float64
		for i := range list {
			v = append(v, float64(of(&list[i])))
		}
		return stat.Mean(v, nil)
	}
	missed := ""
	over := func(than string, slack float64, of, se func(*given) result.Float) string {
		d := mean(of)
		if math.IsNaN(d) {
			return ""
		}
		e := math.Sqrt(mean(func(g *given) result.Float { return se(g) * se(g) }) / float64(len(list)))
		if d > slack && !(d < 2*e) {
			missed = strings.TrimPrefix(missed+", "+than, ", ")
		}
		if math.IsNaN(e) {
			return fmt.Sprintf("%.3f", d)
		}
		return fmt.Sprintf("%.3f ± %.3f", d, e)
	}
	network := over("network", .003, func(g *given) result.Float { return g.OverNetwork }, func(g *given) result.Float { return g.NetworkSE })
	temperature := over("temperature", .02, func(g *given) result.Float { return g.OverTemperature }, func(g *given) result.Float { return g.TemperatureSE })
	row := []any{name}
	for _, of := range []func(*given) result.Float{
		func(g *given) result.Float { return g.Network.NLL }, func(g *given) result.Float { return g.Temperature },
		func(g *given) result.Float { return g.Default.NLL }, func(g *given) result.Float { return g.Best },
		func(g *given) result.Float { return g.Network.ECE }, func(g *given) result.Float { return g.Default.ECE },
		func(g *given) result.Float { return g.Default.Coverage }, func(g *given) result.Float { return g.Default.RMSE },
	} {
		row = append(row, mean(of))
	}
	return append(row, network, temperature, missed)
}

// files are the tables of a network of the reference, with %s for train or test.
func (s *study) files(name string) string {
	join := "-"
	if strings.HasPrefix(name, "defaults/") {
		join = "."
	}
	return filepath.Join("reference", name+join+"%s.csv")
}

// given asks the command about a network.
func (s *study) given(ctx context.Context, p *givenSet, name string) (given, error) {
	g := given{Name: name}
	args := []string{"--model", filepath.Join(s.reference, "reference", name+".onnx"), "--quiet"}
	file := func(part string) string {
		return strings.Replace(filepath.Join(s.reference, s.files(name)), "%s", part, 1)
	}
	if p.index == "" {
		args = append(args, "--data", file("train"))
	} else {
		rows, err := trained.TrainIndex(filepath.Join(s.reference, "reference", filepath.Dir(name), p.index))
		if err != nil {
			return g, err
		}
		if p.count > 0 {
			rows = rows[:p.count]
		}
		index := filepath.Join(s.dir, fmt.Sprintf("index-%d.txt", len(rows)))
		if err := atomicfile.Write(index, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, strings.Trim(strings.ReplaceAll(fmt.Sprint(rows), " ", "\n"), "[]"))
			return err
		}); err != nil {
			return g, err
		}
		args = append(args, "--data", filepath.Join(s.reference, "data/mnist"), "--classes", "4,9", "--standardize", "no", "--train-index", index)
	}
	test := slices.Clone(args)
	if p.index == "" {
		test = append(test, "--test-data", file("test"))
	}
	rows, sum, err := s.gpexplain.Predict(ctx, test)
	if err != nil {
		return g, err
	}
	k := sum.Fit.Calibration
	g.Remainder, g.DefaultTau, g.DefaultS, g.Fit = sum.Fit.Match.Remainder, k.Temperature, k.Scale, sum.Fit.PriorPrecision
	as := &set{likelihood: "categorical"}
	if len(rows[0].Mean) == 1 {
		as.likelihood = "bernoulli"
	}
	var how *trained.Table
	if i := slices.IndexFunc(trained.Reference, func(t trained.Table) bool { return t.Name == p.table }); i >= 0 {
		how = &trained.Reference[i]
		switch how.Likelihood.(type) {
		case *glm.Gaussian:
			as.likelihood = "gaussian"
		case glm.Poisson:
			as.likelihood = "poisson"
		}
	}
	scales := &score.Calibration{Scale: float64(k.Scale), Temperature: float64(k.Temperature), RateKept: as.likelihood == "poisson"}
	for _, v := range k.Shift {
		scales.Shift = append(scales.Shift, float64(v))
	}
	lik, alone, noise := as.lik(), as.lik(), 0.
	if as.likelihood == "gaussian" {
		trainRows, _, err := s.gpexplain.Predict(ctx, append(args, "--test-data", file("train")))
		if err != nil {
			return g, err
		}
		var y []float64
		for _, r := range trainRows {
			y = append(y, r.Label)
			noise += (r.Label - r.Mean[0]) * (r.Label - r.Mean[0]) / float64(len(trainRows))
		}
		sd := stat.PopStdDev(y, nil)
		noise /= sd * sd
		sum.NLL -= result.Float(math.Log(sd))
		for i := range rows {
			r := &rows[i]
			for _, v := range []*float64{&r.Label, &r.Mean[0], &r.ObservationMean[0], &r.ObservationSD[0]} {
				*v /= sd
			}
			r.Covariance[0][0] /= sd * sd
		}
		r := &rows[0] // sd² = s·cov + t·σ²
		own, err := glm.NewGaussian(r.ObservationSD[0]*r.ObservationSD[0] - scales.Scale*r.Covariance[0][0])
		if err != nil {
			return g, err
		}
		if alone, err = glm.NewGaussian(noise); err != nil {
			return g, err
		}
		lik = own
	}
	y, mean, cov := moments(rows, as.likelihood)
	g.Default = as.answered(rows, sum)
	g.Network = as.alone(&split{testY: y, targets: &dataset.Scaling{Mean: []float64{0}, Scale: []float64{1}}}, mean, noise)
	byNetwork, err := score.ScoreOf(nil, alone, y, mean, nil)
	if err != nil {
		return g, err
	}
	_, m, v, err := scales.Apply(lik, mean, cov)
	if err != nil {
		return g, err
	}
	link := predictive.DefaultLink(lik, mean.RawMatrix().Cols)
	byDefault, err := score.ScoreOf(link, lik, y, m, v)
	if err != nil {
		return g, err
	}
	if d := math.Abs(byDefault.NLL - float64(g.Default.NLL)); d > 2e-3*(1+math.Abs(byDefault.NLL)) {
		return g, fmt.Errorf("the default has the NLL %v, and by its scales %v", g.Default.NLL, byDefault.NLL)
	}
	g.OverNetwork, g.NetworkSE = paired(byDefault.LogDensity, byNetwork.LogDensity)
	best, err := score.Calibrate(ctx, lik, y, mean, cov, &score.CalibrateOptions{Spread: math.Inf(1)})
	if err != nil {
		return g, err
	}
	g.Best = result.Float(best.NLL)
	g.Temperature, g.OverTemperature, g.TemperatureSE = result.Undefined(), result.Undefined(), result.Undefined()
	return g, s.heldOutGiven(ctx, &g, how, byDefault.LogDensity)
}

// moments are targets, means and covariances of rows. Labels of classes become their positions among the labels,
// each of which some test row has.
func moments(rows []command.Row, likelihood string) (y, mean, cov *mat.Dense) {
	n, c := len(rows), len(rows[0].Mean)
	y, mean, cov = mat.NewDense(n, 1, nil), mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
	var labels []float64
	for _, r := range rows {
		labels = append(labels, r.Label)
	}
	slices.Sort(labels)
	labels = slices.Compact(labels)
	for i, r := range rows {
		y.Set(i, 0, r.Label)
		if likelihood == "categorical" || likelihood == "bernoulli" {
			y.Set(i, 0, float64(slices.Index(labels, r.Label)))
		}
		mean.SetRow(i, r.Mean)
		for j, v := range r.Covariance {
			cov.SetRow(i*c+j, v)
		}
	}
	return y, mean, cov
}

// paired is the NLL of a less that of b, with its standard error over the rows.
func paired(a, b []float64) (difference, se result.Float) {
	var d []float64
	for i := range a {
		d = append(d, b[i]-a[i])
	}
	mean, sd := stat.MeanStdDev(d, nil)
	return result.Float(mean), result.Float(sd / math.Sqrt(float64(len(d))))
}

// heldOutGiven sets what a temperature or σ² of a held-out fifth gives: by the reference's own figures, or by a
// network that is trained on the other four fifths.
func (s *study) heldOutGiven(ctx context.Context, g *given, how *trained.Table, logp []float64) error {
	text, err := os.ReadFile(filepath.Join(s.reference, "reference/defaults/figures.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var known map[string]struct {
		Temp *struct{ NLL float64 }
	}
	if err == nil {
		if err := json.Unmarshal(text, &known); err != nil {
			return fmt.Errorf("figures.json: %w", err)
		}
	}
	if k := known[strings.TrimPrefix(g.Name, "defaults/")]; k.Temp != nil {
		g.Temperature = result.Float(k.Temp.NLL)
		g.OverTemperature = g.Default.NLL - g.Temperature
		return nil
	}
	if how == nil {
		return nil
	}
	t := *how
	t.File = s.files(g.Name)
	r, err := t.Open(ctx, s.reference)
	if err != nil {
		return err
	}
	n, _ := r.X.Dims()
	tests, _ := r.TestX.Dims()
	order := rand.New(rand.NewPCG(1, 0xf1f78)).Perm(n)
	out, in := order[:n/5], order[n/5:]
	again, err := t.Retraining(r, len(in), filepath.Join(s.dir, "outputs"))
	if err != nil {
		return err
	}
	again.Test = new(mat.Dense)
	again.Test.Stack(r.TestX, pick(r.X, out))
	outputs, err := again.Outputs(ctx, []evaluate.Run{{Rows: in, Seed: 1}})
	if err != nil {
		return err
	}
	c := t.Outputs
	f, held := mat.DenseCopyOf(outputs[0].Slice(0, tests, 0, c)), outputs[0].Slice(tests, tests+len(out), 0, c).(*mat.Dense)
	lik, y := t.Likelihood, pick(r.Y, out)
	switch lik.(type) {
	case *glm.Gaussian:
		if lik, err = glm.NewGaussian(meanSquare(y, held)); err != nil {
			return err
		}
	case glm.Logistic:
		tau, err := temperature(ctx, lik, y, held)
		if err != nil {
			return err
		}
		f.Scale(tau, f)
	}
	by, err := score.ScoreOf(nil, lik, r.TestY, f, nil)
	if err != nil {
		return err
	}
	g.Temperature = result.Float(by.NLL)
	g.OverTemperature, g.TemperatureSE = paired(logp, by.LogDensity)
	return nil
}
