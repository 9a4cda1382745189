package funcgp

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/sparse/shard"
)

// methods lists the methods by which a posterior is computed.
var methods = []string{"exact", "kept", "subset", "nystrom", "parameters"}

// goneMethods maps the methods of older versions to the methods that replaced them.
var goneMethods = map[string]string{"fitc": "nystrom", "cg": "parameters"}

// isSparse tells whether posteriors of a method have inducing examples.
func isSparse(method string) bool { return method == "subset" || method == "nystrom" }

// The file of a saved posterior holds a header with its calibration, the leave-one-out predictions of training rows,
// the sections of the library, whose fingerprints tell the model and the training examples, and the
// training inputs where SaveOptions.Inputs asks for them.
const (
	savedKind    = "gpexplain posterior"
	savedVersion = 6 // with fingerprints since 2, a calibration since 3, the scaling of inputs and targets since 4, a temperature since 5, a shift since 6
)

// A fileKind is a kind of file that begins with a SavedHeader.
type fileKind struct {
	name    string
	version uint32
	what    string // that cannot be opened, for a message
}

// The kinds of files: a posterior; the match, the mode and the inducing examples, which fit --select-only writes; and
// one part of a pass over the training rows.
var (
	posteriorKind = fileKind{savedKind, savedVersion, "the posterior"}
	inducingKind  = fileKind{"gpexplain inducing", 1, "the inducing examples"}
	shardKind     = fileKind{shard.Kind, shard.Version, "the part"}
)

// Write writes a file of the kind.
func (k fileKind) Write(path string, fill func(w *store.Writer) error) error {
	return store.Write(path, k.name, k.version, fill)
}

// savedHeader is the description of the posterior in a file.
type savedHeader struct {
	Rows string `json:"rows"` // training rows
	stated
	Factor *float64 `json:"prior_factor,omitempty"` // of earlier versions: 1, or what the kernel's prior is over the posterior's

	Seed     uint64       `json:"seed"`
	Select   string       `json:"select"`
	Inducing []int        `json:"inducing"` // positions among the training rows
	Mean     gp.Mean      `json:"mean"`
	Bound    gp.Bound     `json:"bound"`
	Fit      result.Fit   `json:"fit"`
	Inputs   bool         `json:"inputs"`                   // the training inputs are inside
	Bundle   bool         `json:"bundle,omitempty"`         // the network is inside too, and nothing else is needed
	Without  bool         `json:"without_inputs,omitempty"` // of the training inputs those of the inducing rows alone are inside
	Targets  string       `json:"targets,omitempty"`        // fingerprint of those of the training rows, of variational inference
	Network  bool         `json:"network"`                  // the mean is the network's output; files of older versions have the mean of their posterior
	Split    int          `json:"split"`                    // Data.Split, -1 where there was none
	Scaling  savedScaling `json:"scaling"`

	CalibrationWarnings linearize.Warnings `json:"calibration_warnings"` // those of Fit are others
	Projection          result.Float       `json:"projection,omitempty"` // φ of (E24), of the match and the mode for parts
	RateKept            bool               `json:"rate_kept,omitempty"`  // the calibration keeps the rates of counts; that of an older version does not

	Grouped *result.Grouped `json:"grouped,omitempty"` // classes that are told apart; Classes are all

	// GroupedPrior is the kernel's prior if its variances are not all 1/Precision. Its scale is in a section of its
	// own.
	GroupedPrior *priorOfFile `json:"grouped_prior,omitempty"`

	Flags map[string]string `json:"flags"` // of the fit, as SavedFlags has them; nil where an older version wrote the file

	Remembered *remembered `json:"remembered,omitempty"` // nil where an older version wrote the file
}

// networkSection holds the ONNX file of a bundle.
const networkSection = "network"

// AddNetwork puts the network of a bundle into its file.
func (m *trainedModel) AddNetwork(w *store.Writer) error {
	text, err := m.ONNX()
	if err == nil {
		w.Bytes(networkSection, text)
	}
	return err
}

// A savedScaling is the scaling of inputs and targets, in the layout of dataset.Scaling, and where it came
// from.
type savedScaling struct {
	Inputs      string   `json:"inputs"`
	Targets     string   `json:"targets"`
	InputsFrom  decision `json:"inputs_from"`
	TargetsFrom decision `json:"targets_from"`
}

// Saved is the scaling as a posterior's file holds it.
func (s *dataScaling) Saved() savedScaling {
	return savedScaling{Inputs: s.Inputs.String(), Targets: s.Targets.String(), InputsFrom: s.InputsFrom, TargetsFrom: s.TargetsFrom}
}

// scaling is the inverse of Saved.
func (s *savedScaling) scaling() (*dataScaling, error) {
	in, err := dataset.ParseScaling(s.Inputs)
	if err != nil {
		return nil, err
	}
	out, err := dataset.ParseScaling(s.Targets)
	return &dataScaling{Inputs: in, Targets: out, InputsFrom: s.InputsFrom, TargetsFrom: s.TargetsFrom}, err
}

// storedRows describes the training inputs inside the file. Their numbers are in sections of their own.
type storedRows struct {
	Rows    string   `json:"rows"`
	Shape   []int    `json:"shape"`
	Columns []string `json:"columns"`
	Integer bool     `json:"integer"`
	Names   []string `json:"names,omitempty"` // the labels as words
	IDs     []string `json:"ids,omitempty"`
	Held    []int    `json:"held,omitempty"` // positions of the rows whose inputs are inside; nil for all

	// Names of the columns of targets and of IDs, "" and nil where there are none or an older version wrote the file.
	Target        string   `json:"target,omitempty"`
	TargetColumns []string `json:"target_columns,omitempty"`
	LastTarget    bool     `json:"last_target,omitempty"`
	ID            string   `json:"id,omitempty"`
	Weights       string   `json:"row_weights,omitempty"`
	AllColumns    []string `json:"all_columns,omitempty"` // with those that were left out; nil where none was
}

// A savedFile is an open file with a posterior.
type savedFile struct {
	path   string
	File   *store.File
	Header savedHeader

	scaling *dataScaling
}

// openSaved opens the posterior of a file. The console closes the file in the end.
func openSaved(ctx context.Context, c *job.Job, path string, kind fileKind, f *asked) (*savedFile, error) {
	file, err := kind.Open(ctx, path, f.Fit.Memory, f.Data.InMemory)
	if err != nil {
		return nil, err
	}
	c.CloseLater(file.Close)
	v := &savedFile{path: path, File: file}
	if err := file.JSON("header", &v.Header); err != nil {
		return nil, err
	}
	h := &v.Header
	if now := goneMethods[h.Fit.Method]; now != "" {
		return nil, job.FullErrorf("%s: is of {method=%s}, which this version does not have; fit it again with {method=%s}", path, h.Fit.Method, now)
	}
	if h.Factor != nil && *h.Factor != 1 {
		return nil, v.Damaged("holds a posterior at another prior than that of its kernel, which this version does not have")
	}
	for k, name := range h.ClassNames {
		h.ClassNames[k] = norm.NFC.String(name) // which older versions did not write
	}
	if k := h.Fit.Calibration; k != nil && k.Temperature == 0 {
		k.Temperature = 1 // of an older version
	}
	if h.Bundle && !f.hasModel() {
		if f.network, err = file.Bytes(networkSection); err != nil {
			return nil, err
		}
	}
	if err := h.Remembered.recall(ctx, path, f, h.Inputs, kind == inducingKind); err != nil {
		return nil, err
	}
	if now := f.Data.split(); h.Inputs && h.Split != now {
		return nil, option.Errorf("%s: its training rows are those of {split=%s}, not of %s: some would be test rows; give the same split", path, splitText(h.Split), splitText(now))
	}
	// The values of the header must be possible ones of a posterior whose calibration makes predictions. The data are
	// compared later.
	k, fit := h.Fit.Calibration, &h.Fit
	ok := func(scale result.Float) bool { return scale >= 1e-300 && scale <= 1e300 }
	shifts := func(v []result.Float) bool {
		return v == nil || len(v) == fit.Outputs && !slices.ContainsFunc(v, func(x result.Float) bool { return !x.Finite() })
	}
	possible := isLikelihood(h.Likelihood) && slices.Contains(methods, fit.Method) && h.Precision > 0 && h.Smoothing >= 0 && h.Smoothing < 1 &&
		(h.Noise > 0 || !hasNoise(likelihoodNamed(h.Likelihood))) && h.Bound >= gp.None && h.Bound <= gp.Upper &&
		(fit.Inference == variationally) == (fit.ELBO != nil) && (fit.Inference == "" || fit.ELBO != nil && slices.Contains(refinable, fit.Method)) &&
		isSparse(fit.Method) == (len(h.Inducing) > 0) && (fit.Method == "kept") == (fit.Certificate != nil) &&
		(k == nil || ok(k.Scale) && ok(k.NoiseScale) && ok(k.Temperature) && k.Temperature <= 1 && shifts(k.Shift) && k.LOO != nil && (k.HeldOut != nil) == (k.Method == "heldout"))
	if v.scaling, err = h.Scaling.scaling(); err != nil || !possible {
		return nil, v.Damaged("its header cannot be used")
	}
	return v, v.agree(ctx, f, kind)
}

// Open opens a file of the kind. A pipe is read into memory, of which it takes no more than may be used, and so is a
// file where inMemory is set: others are mapped, so that whoever writes over one changes what is computed from it, or
// ends the program.
func (k fileKind) Open(ctx context.Context, path string, memory int64, inMemory bool) (*store.File, error) {
	in, err := inputfile.Open(ctx, path)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, job.FullErrorf("%s: %s cannot be opened: %w; name a file that fit wrote", path, k.what, job.CauseOf(err))
	}
	defer in.Close()
	if in.Size() >= 0 && !inMemory {
		return store.Open(path, k.name, k.version)
	}
	f, err := store.Read(in, path, k.name, k.version, gp.MemoryBudget(memory))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f, err
}

// split is the number of the split, -1 for none.
func (f *Data) split() int {
	if f.Split == nil {
		return -1
	}
	return *f.Split
}

// Split is the number of the split of the problem's data, -1 for none.
func (p *problem) Split() int { return p.asked.Data.split() }

func splitText(k int) string {
	if k < 0 {
		return "none"
	}
	return strconv.Itoa(k)
}

// Damaged is the error of a file that cannot be used.
func (v *savedFile) Damaged(problem string) error {
	return &store.Error{File: v.path, Problem: problem, Remedy: "fit it again"}
}

// metadata returns the model's metadata with what the file states in place of what the model does.
func (v *savedFile) metadata(m *metadata) *metadata {
	out, fit := *m, &v.Header.Fit
	out.stated, out.saved = v.Header.stated, v.scaling
	out.precisionFrom, out.noiseFrom = savedOrigin(fit.PriorPrecisionOrigin), savedOrigin(fit.NoiseVarianceOrigin)
	return &out
}

// priorSection holds the scale of a grouped prior.
const priorSection = "prior.scale"

// SavedPrior returns the part of the file that describes the task's prior at this precision, which is nil if
// all variances are the same, and a function that writes the prior's scale.
func (t *problemTask) SavedPrior(m *trainedModel, precision float64) (*priorOfFile, func(w *store.Writer)) {
	if t.Prior == nil {
		return nil, func(*store.Writer) {}
	}
	p := t.Prior.At(precision)
	f := newPriorFile(p.Kind, p.groups, nil, m.Net, t, t.Noise, nil)
	return f, func(w *store.Writer) {
		if p.scale != nil {
			w.Floats(priorSection, p.scale)
		}
	}
}

// setPrior gives the task the prior of the file.
func (v *savedFile) setPrior(t *problemTask, m *trainedModel) error {
	if v == nil || v.Header.GroupedPrior == nil {
		return nil
	}
	f := *v.Header.GroupedPrior
	if f.Kind == priorG {
		var err error
		if f.Scale, err = v.File.Floats(priorSection); err != nil {
			return err
		}
	}
	if f.check() != nil {
		return v.Damaged("its prior cannot be used")
	}
	if why := f.misfit(m.Net); why != "" {
		return option.Errorf("%s: of its prior, %s: it was fitted to another network than %s; give {model} with that", v.path, why, m.Name)
	}
	t.Prior = newPrior(f.Kind, f.Groups, f.Scale, m.Net, savedOrigin(v.Header.Fit.PriorPrecisionOrigin).Text)
	t.Prior.Precision = v.Header.Precision // without the rounding of another mean
	return nil
}

// data returns the data with the training rows that the posterior's file holds, or d if it holds none. If d is
// nil, there are no other rows.
func (v *savedFile) data(d *dataset.Data) (*dataset.Data, error) {
	if !v.Header.Inputs && (!v.Header.Without || d != nil) {
		return d, nil
	}
	var rows storedRows
	if err := v.File.JSON("inputs", &rows); err != nil {
		return nil, err
	}
	r := &dataset.Rows{Shape: rows.Shape, Columns: rows.Columns, Names: rows.Names, IDs: rows.IDs}
	pixels, err := v.File.Bytes("inputs.pixels")
	if err != nil {
		return nil, err
	}
	var x []float64
	for _, section := range []struct {
		name   string
		to     *[]float64
		always bool
	}{{"inputs.targets", &r.Targets, true}, {"inputs.weights", &r.Weights, false}, {"inputs.shares", &r.Shares, false}, {"inputs.features", &x, true}} {
		if !section.always && !v.File.Has(section.name) {
			continue
		}
		if *section.to, err = v.File.Floats(section.name); err != nil {
			return nil, err
		}
	}
	if len(pixels) == 0 {
		pixels = nil
	}
	n, size := max(len(pixels), len(x)), 1 // rows by the size of their inputs
	for _, k := range r.Shape {
		if k < 1 || k > math.MaxInt32/size {
			n = 0
			break
		}
		size *= k
	}
	if n /= size; rows.Held != nil { // each row has a target
		n = len(r.Targets)
	}
	ok := strings.TrimSpace(rows.Rows) == ""
	if !ok {
		r.Index, ok = job.ParseRows(rows.Rows, n)
	}
	if !ok || rows.Held == nil && len(r.Index) != n {
		return nil, v.Damaged("its training rows cannot be used")
	}
	if rows.Integer {
		r.Labels = make([]int, len(r.Index))
	}
	if d == nil {
		d = dataset.Without(r, v.path)
		d.Target, d.TargetColumns, d.LastTarget, d.ID, d.AllColumns = rows.Target, rows.TargetColumns, rows.LastTarget, rows.ID, rows.AllColumns
		d.Weights = rows.Weights
	}
	r.Hold(pixels, x, rows.Held)
	return d.WithTrain(r, v.path)
}
