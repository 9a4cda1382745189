package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// The file of a saved posterior holds a header, the sections of the library, whose
// fingerprints tell the model and the training examples, and with --with-inputs
// the training inputs.
const (
	savedKind    = "gpexplain posterior"
	savedVersion = 2 // posteriors with fingerprints since 2
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
}

// header returns what the file says about p.
func (p *posterior) header(inputs bool) savedHeader {
	return savedHeader{Rows: formatRows(p.train.Rows),
		Likelihood: p.lik.Name(), Classes: p.classed, Noise: p.sigma2, Prior: p.base, Factor: p.factor, Seed: p.seed, Select: p.selection,
		Inducing: p.chosen, Mean: p.mean, Bound: p.bound, SE: report.Float(p.evidenceSE), Fit: p.report(), Inputs: inputs, Split: p.splitNumber()}
}

// save writes the posterior to a file, with the training inputs if asked.
func (p *posterior) save(path string, inputs bool) error {
	head := p.header(inputs)
	var rows *dataset.Stored
	if inputs {
		rows = p.opened.Stored(p.train)
	}
	return store.Write(path, savedKind, savedVersion, func(w *store.Writer) error {
		w.JSON("header", head)
		if inputs {
			w.JSON("inputs", storedRows{formatRows(rows.Rows), rows.Shape, rows.Columns, rows.Integer})
			w.Floats("inputs.targets", rows.Targets)
			w.Bytes("inputs.pixels", rows.Pixels)
			w.Floats("inputs.features", rows.X)
		}
		return p.Save(w)
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

// saved is an open file with a posterior.
type saved struct {
	path string
	file *store.File
	head savedHeader
}

// openSaved opens the posterior that w names. Its method, likelihood, classes and
// precisions replace those of the flags and of the model.
func (s *session) openSaved(ctx context.Context, w *way) error {
	if w == nil || w.file == "" {
		return nil
	}
	f, err := s.openStore(ctx, w.file)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, f.Close)
	v := &saved{path: w.file, file: f}
	if err := f.JSON("header", &v.head); err != nil {
		return err
	}
	h := &v.head
	if now := s.splitNumber(); h.Inputs && h.Split != now {
		return fmt.Errorf("%s: its training rows are those of --split %s, not of %s: some would be test rows; give the same split", v.path, splitText(h.Split), splitText(now))
	}
	if !h.possible() {
		return v.damaged("its header cannot be used")
	}
	s.saved, s.loads = v, true
	s.meta.likelihood, s.meta.classes, s.meta.precision, s.meta.noise = h.Likelihood, h.Classes, h.Prior, h.Noise
	w.method, w.inducing, w.selection, w.refit, w.mean = h.Fit.Method, len(h.Inducing), h.Select, h.Fit.Refit, h.Mean
	return nil
}

// openStore opens the file of a posterior. A pipe is read into memory, of
// which it takes no more than may be used.
func (s *session) openStore(ctx context.Context, path string) (*store.File, error) {
	in, err := inputfile.Open(ctx, path)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, placedf("%s: the posterior cannot be opened: %w; name a file that fit wrote", path, causeOf(err))
	}
	defer in.Close()
	if in.Size() >= 0 {
		return store.Open(path, savedKind, savedVersion)
	}
	f, err := store.Read(in, path, savedKind, savedVersion, gp.MemoryBudget(s.bytes))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f, err
}

// splitNumber is --split, -1 for none.
func (s *shared) splitNumber() int {
	if !s.cmd.Flags().Changed("split") {
		return -1
	}
	return s.split
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
	sparseOne := h.Fit.Method == "subset" || h.Fit.Method == "nystrom"
	return isLikelihood(h.Likelihood) && slices.Contains(methods, h.Fit.Method) && h.Prior > 0 && h.Factor > 0 && (h.Noise > 0 || h.Likelihood != "gaussian") &&
		h.Bound >= gp.None && h.Bound <= gp.Upper && sparseOne == (len(h.Inducing) > 0)
}

func (v *saved) damaged(problem string) error {
	return &store.Error{File: v.path, Problem: problem, Remedy: "fit it again"}
}

// inputs returns the data with the training rows that the file holds, or the
// data as they are where it holds none.
func (v *saved) inputs(d *dataset.Data) (*dataset.Data, error) {
	if !v.head.Inputs {
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

// savedTargets are the targets that Load compares with the posterior's.
func (s *session) savedTargets() *gp.Targets { return &gp.Targets{Y: s.y, Likelihood: s.lik} }

func (v *saved) otherData(s *session) error {
	return fmt.Errorf("%s: its posterior is of other training rows than those of %s; give --data that it was fitted on, or fit --with-inputs", v.path, s.opened.Source)
}

// load returns the posterior of the file.
func (s *session) load(ctx context.Context, w *way) (*posterior, error) {
	v, h := s.saved, &s.saved.head
	if !inRange(h.Inducing, s.train.Len()) {
		return nil, v.damaged("its inducing examples cannot be used")
	}
	if err := s.planLoad(h.Fit.Method, s.train.Len(), len(h.Inducing)); err != nil {
		return nil, err
	}
	p := s.newPosterior(w)
	if err := s.lap(ctx, "load"); err != nil {
		return nil, err
	}
	var err error
	switch h.Fit.Method {
	case "exact":
		err = p.loadExact(ctx, v)
	case "cg":
		err = p.loadCG(ctx, v)
	default:
		err = p.loadSparse(ctx, v)
	}
	s.progress.clear()
	if err != nil {
		return nil, rowsOf(s.train, 0, s.train.Len()).fault(err)
	}
	p.precision, p.base, p.factor, p.chosen = h.Prior/h.Factor, h.Prior, h.Factor, h.Inducing
	f := &h.Fit
	p.grad, p.bound, p.evidenceSE, p.traceError, p.approximate = float64(f.GradientNorm), h.Bound, float64(h.SE), float64(f.TraceError), f.Approximation
	p.evidence = gp.Evidence{Value: float64(f.LogEvidence), LogDet: float64(f.LogDet), LogLik: float64(f.LogLikelihood), Scatter: float64(f.Scatter)}
	for _, text := range f.Warnings {
		if !slices.Contains(s.warnings, text) {
			s.warnings = append(s.warnings, text)
		}
	}
	return p, s.lap(ctx, "factorize")
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

func (p *posterior) loadExact(ctx context.Context, v *saved) error {
	var err error
	if p.batch, err = p.net.Linearize(ctx, p.inputs(p.train)); err != nil {
		return err
	}
	p.source = p.batch
	if err := p.lap(ctx, "linearize"); err != nil {
		return err
	}
	if p.exact, err = gp.Load(v.file, p.kernel, p.batch, &gp.Options{MaxMemory: p.bytes, Targets: p.savedTargets()}); err != nil {
		return err
	}
	p.conditioned = p.exact
	return nil
}

func (p *posterior) loadSparse(ctx context.Context, v *saved) error {
	p.source = p.sourceOf(p.train)
	z, err := p.inducingAt(ctx, v.head.Inducing)
	if err != nil {
		return err
	}
	if err := p.lap(ctx, "linearize"); err != nil {
		return err
	}
	o := p.sparseOptions()
	o.Targets = p.savedTargets()
	q, err := sparse.Load(ctx, v.file, p.kernel, p.source, z, o)
	if err != nil {
		return err
	}
	p.conditioned = q
	return nil
}

func (p *posterior) loadCG(ctx context.Context, v *saved) error {
	if err := p.openSource(ctx); err != nil {
		return err
	}
	if err := p.lap(ctx, "linearize"); err != nil {
		return err
	}
	q, err := cg.Load(ctx, v.file, p.kernel, p.source, &cg.Options{MaxMemory: p.bytes, Progress: p.progress.show, Targets: p.savedTargets()})
	if err != nil {
		return err
	}
	p.conditioned = q
	return nil
}

// rowNumbers reads n row numbers that formatRows wrote.
func rowNumbers(text string, n int) ([]int, bool) {
	if strings.TrimSpace(text) == "" {
		return nil, n == 0
	}
	rows, ok := parseRows(text, n)
	return rows, ok && len(rows) == n
}
