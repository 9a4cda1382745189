package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// The file of a saved posterior holds a header with its calibration, the
// leave-one-out predictions of training rows, the sections of the library, whose fingerprints tell the model
// and the training examples, and with --with-inputs the training inputs.
const (
	savedKind    = "gpexplain posterior"
	savedVersion = 3 // with fingerprints since 2, with a calibration since 3
)

// savedHeader is what a file says about its posterior.
type savedHeader struct {
	Rows       string       `json:"rows"` // training rows
	Likelihood string       `json:"likelihood"`
	Classes    []int        `json:"classes"`
	Noise      float64      `json:"noise_variance"`
	Prior      float64      `json:"prior_precision"`
	Factor     float64      `json:"prior_factor"` // chosen by --tune-prior
	Seed       uint64       `json:"seed"`
	Select     string       `json:"select"`
	Inducing   []int        `json:"inducing"` // positions among the training rows
	Mean       gp.Mean      `json:"mean"`
	Bound      gp.Bound     `json:"bound"`
	SE         report.Float `json:"log_evidence_se"`
	Fit        report.Fit   `json:"fit"`
	Inputs     bool         `json:"inputs"` // the training inputs are inside
	Split      int          `json:"split"`  // --split, -1 where there was none

	CalibrationWarnings []string `json:"calibration_warnings"` // those of Fit are others
}

// save writes the posterior to a file, with the training inputs if asked. split
// is --split, nil where it was not given.
func (q *posterior) save(path string, p *problem, r report.Fit, inputs bool, split *int) error {
	e, t := p.examples, p.task
	head := savedHeader{Rows: formatRows(e.train.Rows), Likelihood: t.likelihood.Name(), Classes: t.classes, Noise: t.noise,
		Prior: q.kernelPrecision, Factor: q.factor, Seed: p.limits.seed, Select: q.how.selection, Inducing: q.how.inducing, Mean: q.how.mean,
		Bound: q.evidence.Bound, SE: report.Float(q.evidence.StdErr), Fit: r, Inputs: inputs, Split: splitNumber(split)}
	if k := q.calibration; k != nil {
		head.CalibrationWarnings = k.warnings
		head.Fit.Warnings = slices.DeleteFunc(slices.Clone(r.Warnings), func(text string) bool { return slices.Contains(k.warnings, text) })
	}
	var rows *dataset.Stored
	if inputs {
		rows = e.data.Stored(e.train)
	}
	return store.Write(path, savedKind, savedVersion, func(w *store.Writer) error {
		w.JSON("header", head)
		if inputs {
			w.JSON("inputs", storedRows{formatRows(rows.Rows), rows.Shape, rows.Columns, rows.Integer})
			w.Floats("inputs.targets", rows.Targets)
			w.Bytes("inputs.pixels", rows.Pixels)
			w.Floats("inputs.features", rows.X)
		}
		if q.calibration != nil {
			w.Floats("leave-one-out", packRows(q.calibration.rows))
		}
		return q.dual.Save(w)
	})
}

// storedRows describes the training inputs inside the file. Their numbers are in
// sections of their own.
type storedRows struct {
	Rows    string   `json:"rows"`
	Shape   []int    `json:"shape"`
	Columns []string `json:"columns"`
	Integer bool     `json:"integer"`
}

// A savedFile is an open file with a posterior.
type savedFile struct {
	path   string
	file   *store.File
	header savedHeader
}

// openSaved opens the posterior of a file. The console closes the file in the
// end.
func openSaved(ctx context.Context, c *console, path string, f *commonFlags) (*savedFile, error) {
	file, err := openStore(ctx, path, f.limits.memory)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, file.Close)
	v := &savedFile{path: path, file: file}
	if err := file.JSON("header", &v.header); err != nil {
		return nil, err
	}
	h := &v.header
	if now := splitNumber(f.data.split); h.Inputs && h.Split != now {
		return nil, fmt.Errorf("%s: its training rows are those of --split %s, not of %s: some would be test rows; give the same split", path, splitText(h.Split), splitText(now))
	}
	if !h.possible() {
		return nil, v.damaged("its header cannot be used")
	}
	return v, nil
}

// openStore opens the file of a posterior. A pipe is read into memory, of
// which it takes no more than may be used.
func openStore(ctx context.Context, path string, memory int64) (*store.File, error) {
	in, err := inputfile.Open(ctx, path)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fullErrorf("%s: the posterior cannot be opened: %w; name a file that fit wrote", path, causeOf(err))
	}
	defer in.Close()
	if in.Size() >= 0 {
		return store.Open(path, savedKind, savedVersion)
	}
	f, err := store.Read(in, path, savedKind, savedVersion, gp.MemoryBudget(memory))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f, err
}

// splitNumber is --split, -1 for none.
func splitNumber(split *int) int {
	if split == nil {
		return -1
	}
	return *split
}

func splitText(k int) string {
	if k < 0 {
		return "none"
	}
	return strconv.Itoa(k)
}

// possible tells whether the values of the header can be those of a posterior.
// The data are compared later.
func (h *savedHeader) possible() bool {
	return isLikelihood(h.Likelihood) && slices.Contains(methods, h.Fit.Method) && h.Prior > 0 && h.Factor > 0 &&
		(h.Noise > 0 || !hasNoise(likelihoodNamed(h.Likelihood))) &&
		possibleCalibration(h.Fit.Calibration) && h.Bound >= gp.None && h.Bound <= gp.Upper && isSparse(h.Fit.Method) == (len(h.Inducing) > 0)
}

// possibleCalibration tells whether predictions can be made with a calibration;
// nil is none.
func possibleCalibration(k *report.Calibration) bool {
	ok := func(scale report.Float) bool { return scale >= 1e-300 && scale <= 1e300 }
	return k == nil || ok(k.Scale) && ok(k.NoiseScale) && k.LOO != nil && (k.HeldOut != nil) == (k.Method == "heldout")
}

func (v *savedFile) damaged(problem string) error {
	return &store.Error{File: v.path, Problem: problem, Remedy: "fit it again"}
}

// metadata returns the model's metadata with the likelihood, classes and
// numbers that the posterior was fitted with.
func (v *savedFile) metadata(m *metadata) *metadata {
	out, h := *m, &v.header
	out.likelihood, out.classes, out.precision, out.noise = h.Likelihood, h.Classes, h.Prior, h.Noise
	return &out
}

// data returns the data with the training rows that the file holds, or the
// data as they are where it holds none.
func (v *savedFile) data(d *dataset.Data) (*dataset.Data, error) {
	if !v.header.Inputs {
		return d, nil
	}
	var rows storedRows
	if err := v.file.JSON("inputs", &rows); err != nil {
		return nil, err
	}
	r := &dataset.Stored{Shape: rows.Shape, Columns: rows.Columns, Integer: rows.Integer}
	var err error
	if r.Targets, err = v.file.Floats("inputs.targets"); err != nil {
		return nil, err
	}
	if r.Pixels, err = v.file.Bytes("inputs.pixels"); err != nil {
		return nil, err
	}
	if r.X, err = v.file.Floats("inputs.features"); err != nil {
		return nil, err
	}
	if len(r.Pixels) == 0 {
		r.Pixels = nil
	}
	var ok bool
	if r.Rows, ok = rowNumbers(rows.Rows, len(r.Targets)); !ok {
		return nil, v.damaged("its training rows cannot be used")
	}
	return d.WithTrain(r, v.path)
}

// trainingRows selects the rows whose numbers the file holds. Whether they are
// those that the posterior was fitted on is checked when it is loaded.
func (v *savedFile) trainingRows(t *task, d *dataset.Data) (*dataset.Subset, error) {
	rows, ok := parseRows(v.header.Rows, d.Train.Len())
	if ok {
		train, err := d.Train.Select(&dataset.SelectOptions{Classes: t.classes, Rows: rows})
		if err == nil {
			return train, nil
		}
	}
	return nil, fmt.Errorf("%s: its posterior is of other training rows than those of %s; give --data that it was fitted on, or fit --with-inputs", v.path, d.Source)
}

// loadPosterior returns the posterior of the problem's file, with its calibration
// unless the method of calibration is "" or none.
func loadPosterior(ctx context.Context, c *console, p *problem, calibrate string) (*posterior, error) {
	v, h, f := p.saved, &p.saved.header, &p.saved.header.Fit
	if !inRange(h.Inducing, p.examples.train.Len()) {
		return nil, v.damaged("its inducing examples cannot be used")
	}
	if err := planLoad(p, f.Method, p.examples.train.Len(), len(h.Inducing)); err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(h.Prior, nil)
	if err != nil {
		return nil, err
	}
	q := &posterior{kernel: ntk.New(prior, p.model.net.Theta(), nil), how: method{f.Method, h.Select, h.Inducing, h.Mean},
		precision: h.Prior / h.Factor, kernelPrecision: h.Prior, factor: h.Factor, gradient: float64(f.GradientNorm),
		evidence:   gp.Evidence{Value: float64(f.LogEvidence), LogDet: float64(f.LogDet), LogLik: float64(f.LogLikelihood), Scatter: float64(f.Scatter), StdErr: float64(h.SE), Bound: h.Bound},
		traceError: float64(f.TraceError), approximation: f.Approximation, tuning: f.Tuning}
	if err := c.endPart(ctx, "load"); err != nil {
		return nil, err
	}
	q.dual, err = loadDual(ctx, c, p, q.kernel)
	c.bar.clear()
	if err != nil {
		return nil, p.trainNames().explainError(err)
	}
	for _, text := range f.Warnings {
		c.warnText(text)
	}
	if calibrate != "" {
		if err := q.loadCalibration(c, p, calibrate == "none"); err != nil {
			return nil, err
		}
	}
	return q, c.endPart(ctx, "factorize")
}

// loadCalibration reads the calibration of the file, if it has one. unscaled takes
// only the novelty of training rows and leaves the covariance as it is.
func (q *posterior) loadCalibration(c *console, p *problem, unscaled bool) error {
	v, k := p.saved, p.saved.header.Fit.Calibration
	if k == nil {
		return nil
	}
	numbers, err := v.file.Floats("leave-one-out")
	if err != nil {
		return err
	}
	rows, ok := unpackRows(numbers, p)
	if !ok {
		return v.damaged("its leave-one-out predictions cannot be used")
	}
	q.novelty = rankNovelty(rows)
	if unscaled {
		return nil
	}
	q.calibration = &calibration{Calibration: *k, rows: rows, warnings: v.header.CalibrationWarnings}
	for _, text := range q.calibration.warnings {
		c.warnText(text)
	}
	return nil
}

// packRows returns what is saved of leave-one-out predictions: the same number of
// values for each row.
func packRows(rows []report.PredictedRow) []float64 {
	var out []float64
	put := func(list ...report.Float) {
		for _, x := range list {
			out = append(out, float64(x))
		}
	}
	for i := range rows {
		r := &rows[i]
		put(report.Float(r.Index), r.Label, r.Class, r.LogDensity, r.MAPLogDensity, r.Novelty.Score, r.Novelty.MutualInformation)
		put(r.Probability...)
		put(r.MAPProbability...)
		if r.Probability == nil {
			put(r.ObservationSD[0], r.FunctionSD[0], r.Expected, r.MAPExpected, r.CDF, r.MAPCDF)
		}
	}
	return out
}

// unpackRows reads what packRows wrote for the problem; ok is false where it cannot
// be that.
func unpackRows(v []float64, p *problem) (rows []report.PredictedRow, ok bool) {
	const common, regression = 7, 6
	classes := p.task.classes
	width := common + regression
	if classes != nil {
		width = common + 2*len(classes)
	}
	training := map[int]bool{}
	for _, r := range p.examples.train.Rows {
		training[r] = true
	}
	for part := range slices.Chunk(report.Floats(v), width) {
		r := report.PredictedRow{Index: -1}
		if part[0] >= 0 && part[0] < math.MaxInt32 {
			r.Index = report.Index(part[0])
		}
		if len(part) < width || !training[int(r.Index)] || classes != nil && !slices.Contains(p.task.labels(), part[1]) {
			return nil, false
		}
		r.Label, r.Class, r.LogDensity, r.MAPLogDensity = part[1], part[2], part[3], part[4]
		r.Novelty = report.Novelty{Score: part[5], MutualInformation: part[6]}
		if k := len(classes); k > 0 {
			r.Probability, r.MAPProbability = part[common:common+k], part[common+k:]
		} else {
			r.ObservationSD, r.FunctionSD, r.Expected, r.MAPExpected, r.CDF, r.MAPCDF = part[7:8], part[8:9], part[9], part[10], part[11], part[12]
		}
		rows = append(rows, r)
	}
	return rows, true
}

// loadDual linearizes the training examples as the method needs them and reads
// the posterior.
func loadDual(ctx context.Context, c *console, p *problem, kernel *ntk.NTK) (fitted, error) {
	v, name, memory := p.saved, p.saved.header.Fit.Method, p.limits.memory
	x, err := p.trainingExamples(ctx, name == "exact" || name == "cg" && p.keepsJacobian())
	if err != nil {
		return nil, err
	}
	var z *sparse.Inducing
	if isSparse(name) {
		if z, err = p.inducing(ctx, v.header.Inducing); err != nil {
			return nil, err
		}
	}
	if err := c.endPart(ctx, "linearize"); err != nil {
		return nil, err
	}
	targets := &gp.Targets{Y: p.examples.y, Likelihood: p.task.likelihood}
	switch name {
	case "exact":
		return gp.Load(v.file, kernel, x.(*linearize.Batch), &gp.Options{MaxMemory: memory, Targets: targets})
	case "cg":
		return cg.Load(ctx, v.file, kernel, x, &cg.Options{MaxMemory: memory, Targets: targets, Progress: c.show})
	}
	return sparse.Load(ctx, v.file, kernel, x, z, &sparse.Options{Mean: v.header.Mean, MaxMemory: memory, Targets: targets, Progress: c.show})
}

// inRange tells whether positions are different ones below n.
func inRange(positions []int, n int) bool {
	seen := make([]bool, n)
	for _, at := range positions {
		if at < 0 || at >= n || seen[at] {
			return false
		}
		seen[at] = true
	}
	return true
}

// rowNumbers reads n row numbers that formatRows wrote.
func rowNumbers(text string, n int) ([]int, bool) {
	if strings.TrimSpace(text) == "" {
		return nil, n == 0
	}
	rows, ok := parseRows(text, n)
	return rows, ok && len(rows) == n
}
