package funcgp

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// negativeBinomial returns the likelihood of a dispersion in decimals.
func negativeBinomial(text string) (glm.Likelihood, error) {
	r, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, err
	}
	return glm.NewNegativeBinomial(r)
}

// MultiLabel tells whether a row has any number of labels, each 0 or 1 by an output of its own. Its targets are those of
// a regression of several, and its responses are probabilities.
func (t *problemTask) MultiLabel() bool { return t.LabelNames != nil }

// Predicts says in a message what the outputs of a model are about.
func (t *problemTask) Predicts() string {
	if t.MultiLabel() {
		return "several labels a row"
	}
	return "the " + t.Likelihood.Name() + " likelihood"
}

// A problemTask says what the outputs of a model mean.
type problemTask struct {
	Likelihood glm.Likelihood
	Classes    []int         // labels of the classes in the order of the outputs; nil for a regression and LabelNames
	Names      []string      // of the classes; nil where they have none
	LabelNames []string      // of the labels of which a row has any number, by outputs; nil where a row has a class or numbers
	Precision  float64       // δ of the prior on every parameter; that of Prior where there is one
	Prior      *groupedPrior // nil where all variances are 1/δ
	FoundPrior bool          // the prior is that of Prior.File, and not that of the training
	Noise      float64       // σ² of the gaussian likelihood; 0 for the others

	PrecisionFrom, NoiseFrom decision

	// open tells that neither options nor metadata determine whether targets are real numbers or counts.
	open bool

	Grouping *grouping // nil where all classes are told apart

	Loss loss // of the training, beside the likelihood
}

// A decider is who decided a value.
type decider int

// The deciders.
const (
	nobody decider = iota
	byDefault
	byModel       // its metadata
	byOption      // an option that orders the value
	byComputation // from the network, rows or what options say of the training
	byGuess       // the best of several that were compared
	moot          // there is nothing to decide
)

// An decision says who decided a value, and in a short phrase for people where it came from. The zero value is an open
// question.
type decision struct {
	By   decider
	Text option.Text
}

// The origins of values that are not computed.
var (
	fromMetadata  = decision{byModel, "from the model's metadata"}
	fromDefault   = decision{byDefault, "the default: nothing said otherwise"}
	fromKind      = decision{moot, "they are no real numbers"}
	fromPrecision = orderedBy("prior-precision")
	fromNoise     = orderedBy("noise-variance")
)

// orderedBy returns the origin of a value that an option gives.
func orderedBy(name string) decision { return decision{byOption, "from " + option.Named(name)} }

// computed returns the origin of a computed value. It formats the phrase as option.Textf does.
func computed(format string, args ...any) decision {
	return decision{byComputation, option.Textf(format, args...)}
}

// guessed returns the origin of a value that was guessed by comparing candidates.
func guessed(why string) decision { return decision{byGuess, option.Textf("guessed: %s", why)} }

// thing names the option, file or metadata entry that gives the value, for error messages.
func (o decision) thing() option.Text {
	return option.Text(strings.TrimPrefix(string(o.Text), "from "))
}

// MarshalText writes the phrase, with options in braces, as files keep it.
func (o decision) MarshalText() ([]byte, error) { return []byte(o.Text), nil }

// UnmarshalText reads the phrase of a file. Older files have flags in place of options.
func (o *decision) UnmarshalText(text []byte) error {
	*o = decision{byComputation, option.Text(text)}
	for _, known := range []decision{{}, fromMetadata, fromDefault, fromKind, fromPrecision, fromNoise} {
		if known.Text.In(option.Flags) == o.Text.In(option.Flags) {
			*o = known
		}
	}
	if strings.HasPrefix(string(text), "guessed: ") {
		o.By = byGuess
	}
	return nil
}

// savedOrigin returns the origin that a file records as a phrase.
func savedOrigin(text string) (o decision) {
	_ = o.UnmarshalText([]byte(text)) // which takes every text
	return o
}

// PrecisionGiven tells whether an option sets the prior precision of the answers. Options that only describe
// the training do not count.
func (t *problemTask) PrecisionGiven() bool { return t.PrecisionFrom.By == byOption || t.FoundPrior }

// NoiseGiven tells whether an option says the noise variance, by itself or by a file of the prior.
func (t *problemTask) NoiseGiven() bool { return t.NoiseFrom.By == byOption }

// NoiseRecorded tells whether the model says the noise variance.
func (t *problemTask) NoiseRecorded() bool { return t.NoiseFrom.By == byModel }

// chooseTask decides by the flags, then by the metadata of the model, then by the data.
func chooseTask(c *job.Job, a *asked, m *trainedModel, d *dataset.Data) (*problemTask, error) {
	// Ask the flags, then the metadata. Where labels are words, names are classes. Flags that contradict the metadata
	// are an error.
	f, data := &a.Fit, &a.Data
	var w wanted
	var err error
	w.names, w.from = data.ClassNames, "{classes}"
	if w.names == nil {
		w.names = m.Meta.ClassNames
	}
	if w.classes, err = labelsOf("{classes}", data.Classes, d); err != nil {
		return nil, err
	}
	recorded := m.Meta.Classes
	if d.Names != nil {
		recorded = nil
		if m.Meta.ClassNames != nil {
			if recorded, err = labelsOf(m.metadataEntry(keyClassNames), m.Meta.ClassNames, d); err != nil {
				return nil, err
			}
		}
		named, err := labelsOf("{class-names}", data.ClassNames, d)
		if err != nil {
			return nil, err
		}
		for k, name := range d.Names { // without Data.Classes the words are all the classes
			if named != nil && data.Classes == nil && !slices.Contains(named, k) {
				return nil, option.Errorf("{class-names=%s}: %s has rows of the class %s too; name it, or keep some classes with {classes}", job.JoinNames(data.ClassNames), d.Source, name)
			}
		}
		switch {
		case w.classes == nil:
			w.classes = named
		case named != nil && !slices.Equal(named, w.classes):
			return nil, option.Errorf("{class-names=%s} and {classes=%s} are different classes; give one of them", job.JoinNames(data.ClassNames), job.JoinNames(data.Classes))
		}
		w.names = nil // the data's names are the names
	}
	if w.classes != nil && recorded != nil && !slices.Equal(w.classes, recorded) {
		flag, given := option.Text("{classes}"), job.JoinNames(data.Classes)
		if given == "" {
			flag, given = "{class-names}", job.JoinNames(data.ClassNames)
		}
		return nil, option.Errorf("%s %s contradicts %s, whose outputs are by its metadata for the classes %s; leave %s out", flag, given, m.Name, classText(recorded, d), flag)
	}
	if w.classes == nil {
		w.classes, w.from = recorded, m.metadataEntry(keyClasses)
	}
	name := cmp.Or(f.Likelihood, m.Meta.Likelihood)
	if row, ok := d.SeveralLabels(); ok && name == "" {
		name = "bernoulli"
		c.Note("%s: the target columns %s are labels of which a row has any number (row %d of the %s rows has other than a single one); {likelihood=gaussian} takes them as numbers", d.Source, option.QuoteList(d.TargetColumns), row, d.Train.Part)
	}
	t := &problemTask{}
	if name == "" {
		// Labels are bernoulli or categorical, other targets gaussian. More than two whole numbers in a table are no
		// labels for one output, unless classes are named.
		switch {
		case !d.IntegerLabels || m.Outputs == 1 && w.classes == nil && d.Names == nil && !d.Images() && len(d.Classes()) > 2:
			name, t.open = "gaussian", true
		case m.Outputs == 1:
			name = "bernoulli"
		default:
			name = "categorical"
		}
	}
	t.Likelihood = likelihoodNamed(name)
	t.Precision, t.PrecisionFrom = firstPositive(f.Prior.Precision, fromPrecision, m.Meta.Precision, m.Meta.precisionFrom)
	if hasNoise(t.Likelihood) {
		t.Noise, t.NoiseFrom = firstPositive(f.NoiseVariance, fromNoise, m.Meta.Noise, m.Meta.noiseFrom)
		if t.Likelihood, err = glm.NewGaussian(t.Noise); err != nil {
			return nil, err
		}
	} else if f.NoiseVariance != nil {
		return nil, option.Errorf("{noise-variance} is for the gaussian likelihood, but %s has the %s likelihood; leave it out or give {likelihood=gaussian}", m.Name, name)
	}
	if !hasClasses(t.Likelihood) {
		labels := map[bool]string{true: "bernoulli", false: "categorical"}[m.Outputs == 1]
		if data.Classes != nil || data.ClassNames != nil {
			flag := option.Text("{classes}")
			if data.Classes == nil {
				flag = "{class-names}"
			}
			remedy := option.Text("leave it out")
			if d.IntegerLabels {
				remedy += ", or give " + option.Set("likelihood", labels)
			}
			return nil, option.Errorf("%s is for labels, but %s has the %s likelihood; %s", flag, m.Name, name, remedy)
		}
		if d.Names != nil {
			return nil, option.Errorf("%s: the targets are words (%s), and the %s likelihood takes numbers; name a column of numbers with {target}, or give {likelihood=%s}",
				d.Source, job.Cut(job.JoinNames(d.Names), 40), name, labels)
		}
		if hasLogVariances(t.Likelihood) && m.Outputs%2 != 0 {
			return nil, option.Errorf("%s has %d outputs, but the %s likelihood needs two for each target, the means and then the logarithms of the noise variances; give {likelihood=gaussian}", m.Name, m.Outputs, name)
		}
		return t, nil
	}
	if !isSoftmax(t.Likelihood) && m.Outputs > 1 {
		t.LabelNames, err = labelNames(&w, m, d, data, name)
		return t, err
	}
	// The outputs stand for the classes that are wanted, else for all labels of the data.
	switch {
	case isSoftmax(t.Likelihood) && m.Outputs == 1:
		return nil, option.Errorf("%s has one output, but the %s likelihood needs one for each class; give {likelihood=bernoulli}", m.Name, name)
	case !d.IntegerLabels && d.Train.Width() > 1:
		remedy := option.Text("name its column with {target}")
		if _, ok := d.SeveralLabels(); ok && d.Train.Width() == m.Outputs {
			remedy = "give {likelihood=bernoulli} for any number of labels a row, or name its column with {target}"
		}
		return nil, option.Errorf("%s: %d targets a row, %s, but the %s likelihood takes one label; %s", d.Source, d.Train.Width(), option.QuoteList(d.TargetColumns), name, remedy)
	case !d.IntegerLabels:
		remedy := targetRemedy(d, m, max(m.Outputs, 2))
		if m.Outputs == 1 {
			remedy = "give {likelihood=gaussian} for a regression, or {target} with a column of labels"
		}
		return nil, option.Errorf("%s: the targets are not all integers, which the %s likelihood needs: %s; %s", d.Source, name, targetText(d, 1), remedy)
	}
	classes, err := w.all(c, m, d)
	if err != nil {
		return nil, err
	}
	t.Classes = classes
	// Their names are the data's, else the wanted ones.
	switch {
	case d.Names != nil:
		for _, k := range t.Classes {
			t.Names = append(t.Names, d.Train.ClassName(k))
		}
	case w.names != nil && len(w.names) != len(t.Classes):
		return nil, option.Errorf("%d names of classes (%s), but %s tells %d apart; give {class-names} one for each", len(w.names), job.Cut(job.JoinNames(w.names), 40), m.Name, len(t.Classes))
	default:
		if t.Names = w.names; t.Names == nil && d.OneHot != nil {
			for _, k := range t.Classes {
				t.Names = append(t.Names, d.OneHot[k])
			}
		}
	}
	return t, nil
}

// labelNames returns one name for each output, of labels of which a row has any number. They are the names
// asked for, or else the target columns, or else numbers.
func labelNames(w *wanted, m *trainedModel, d *dataset.Data, data *Data, likelihood string) ([]string, error) {
	columns := d.TargetColumns
	switch {
	case d.Train.Width() == 1:
		return nil, option.Errorf("%s has %d outputs, but the %s likelihood is for one, or for a label of each; give {likelihood=categorical}, or name the %d columns of the labels with {target}", m.Name, m.Outputs, likelihood, m.Outputs)
	case data.Classes != nil:
		return nil, option.Errorf("{classes} is for one class a row, but the rows of %s have several labels; leave it out", d.Source)
	case w.names != nil && len(w.names) != m.Outputs:
		return nil, option.Errorf("%d names of labels (%s), but %s has %d outputs; give {class-names} one for each", len(w.names), job.Cut(job.JoinNames(w.names), 40), m.Name, m.Outputs)
	case w.names != nil && !slices.Equal(w.names, columns) && slices.Equal(slices.Sorted(slices.Values(w.names)), slices.Sorted(slices.Values(columns))):
		return nil, option.Errorf("the outputs of %s are for the labels %s, but the target columns are %s; give {target=%s}", m.Name, job.JoinNames(w.names), job.JoinNames(columns), job.Word(job.JoinNames(w.names)))
	case w.names != nil:
		return w.names, nil
	case len(columns) == m.Outputs:
		return columns, nil
	}
	names := make([]string, m.Outputs)
	for k := range names {
		names[k] = strconv.Itoa(k)
	}
	return names, nil
}

// all returns the classes that the outputs of a model stand for: the classes asked for, or else all labels of
// the data. A label that no row has is counted in two cases: if it is asked for and no row is left out, or if
// only numbers from 0 fit the number of outputs.
func (w *wanted) all(c *job.Job, m *trainedModel, d *dataset.Data) ([]int, error) {
	want, known := max(m.Outputs, 2), d.Classes()
	outside := func(list, of []int) []int {
		return slices.DeleteFunc(slices.Clone(list), func(k int) bool { return slices.Contains(of, k) })
	}
	if w.classes != nil {
		if len(w.classes) != want {
			return nil, option.Errorf("%s: %d classes (%s), but %s tells %d apart; name as many%s", w.from, len(w.classes), job.Cut(classText(w.classes, d), 40), m.Name, want, orArch(m))
		}
		if lacking := outside(w.classes, known); len(lacking) > 0 && want-len(lacking) > 1 && len(outside(known, w.classes)) == 0 {
			d.AddClasses(lacking)
			c.Note("%s: no row is of class %s", d.Source, formatInts(lacking))
		}
		return w.classes, nil
	}
	arch := orArch(m)
	if len(known) < 2 { // there is nothing to tell apart
		arch = ""
	}
	fail := func(remedy string, a ...any) ([]int, error) {
		return nil, option.Errorf("%s: %s (%s), but %s tells %d apart; %s", d.Source, result.Some(len(known), "class", "classes"), job.Cut(classText(known, d), 40), m.Name, want, option.Textf(remedy, a...)+arch)
	}
	from := func(first int) []int {
		list := make([]int, want)
		for k := range list {
			list[k] = first + k
		}
		return list
	}
	switch {
	case len(known) == want:
		return known, nil
	case len(known) == 1:
		return fail("take rows of another class too")
	case len(known) > want && m.Outputs == 1 && d.Names == nil:
		return fail("name two of them with {classes}, or give {likelihood=gaussian} or poisson for a regression")
	case len(known) > want:
		return fail("name %d of them with {classes}", want)
	case d.Names != nil:
		return fail("name all %d with {class-names} in the order of the outputs", want)
	case len(known) > 0 && known[0] == 0 && known[len(known)-1] < want:
		d.AddClasses(from(0))
		c.Note("%s: its labels are %s of the numbers 0 to %d, and are taken for those of the outputs; {classes} names others", d.Source, job.Count(len(known)), want-1)
		return from(0), nil
	case len(known) > 0 && known[0] > 0 && known[len(known)-1] == want:
		return fail("give {classes=%s} if they count from 1", formatInts(from(1)))
	case len(known) > 0 && known[0] > 0 && known[len(known)-1] < want:
		return fail("give {classes=%s} if they count from 0, or {classes=%s} from 1", formatInts(from(0)), formatInts(from(1)))
	}
	return fail("name the label of each output with {classes}, those that no row has too")
}

// orArch returns a second remedy for a model that is still to be trained.
func orArch(m *trainedModel) option.Text {
	if m.Net != nil {
		return ""
	}
	return ", or give {arch} one output for each class"
}

// firstPositive is the number of a flag, else of the metadata, else 1.
func firstPositive(flag *float64, given decision, recorded float64, saved decision) (float64, decision) {
	switch {
	case flag != nil:
		return *flag, given
	case recorded > 0 && saved.By != nobody:
		return recorded, saved
	case recorded > 0:
		return recorded, fromMetadata
	}
	return 1, fromDefault
}

// targets returns the targets of rows of the data as the likelihood takes them, one row an example.
func (t *problemTask) targets(rows *dataset.Rows, m *trainedModel, d *dataset.Data) (*mat.Dense, error) {
	want := t.Likelihood.Targets(m.Outputs)
	switch have := rows.Width(); {
	case have == 0:
		return nil, fmt.Errorf("%s: the targets of its rows are unknown; add the target column", rows.File)
	case have != want && want == m.Outputs:
		return nil, option.Errorf("%s: %s, but the %s likelihood needs one for each of the %d outputs of %s; %s", d.Source, targetText(d, have), t.Likelihood.Name(), want, m.Name, targetRemedy(d, m, m.Outputs))
	case have != want && hasLogVariances(t.Likelihood):
		return nil, option.Errorf("%s: %d targets a row, but the %s likelihood needs one for every two of the %d outputs of %s; name %d with {target}", d.Source, have, t.Likelihood.Name(), m.Outputs, m.Name, want)
	case have != want:
		return nil, option.Errorf("%s: %d targets a row, but the %s likelihood takes one; name one with {target}", d.Source, have, t.Likelihood.Name())
	}
	y := mat.NewDense(rows.Len(), want, slices.Clone(rows.Targets))
	for i := range rows.Len() {
		if err := t.Likelihood.CheckY(y.RawRowView(i), m.Outputs); err != nil {
			return nil, option.Errorf("%s: row %d: %w; correct it, leave the row out, or give another {likelihood}", rows.File, rows.Index[i], err)
		}
	}
	return y, nil
}

// targetText describes which targets a row has.
func targetText(d *dataset.Data, have int) string {
	switch {
	case have == 1 && d.LastTarget:
		return fmt.Sprintf("the target is one number a row, %s, the last column", d.Target)
	case have == 1 && d.Target != "":
		return fmt.Sprintf("the target is one number a row, %s", d.Target)
	}
	return fmt.Sprintf("%d targets a row", have)
}

// targetRemedy says which column to name as the target for several outputs: the only one that can hold labels of as
// many classes, where the data show it.
func targetRemedy(d *dataset.Data, m *trainedModel, outputs int) option.Text {
	if d.Columns == nil && m.Net != nil && m.Outputs == elements(d.Shape) {
		return "if it is an autoencoder, gpexplain reconstruct takes it"
	}
	if d.Columns == nil {
		return "give {data} with such targets"
	}
	if d.LastTarget && !d.Train.ByRange() && d.Train.Len() > 0 && len(d.Columns) <= mostTyped {
		x, found := d.Train.Matrix(), []int(nil)
		for j := range d.Columns {
			labels := map[float64]bool{}
			for _, v := range mat.Col(nil, j, x) {
				if labels[v] = true; v != math.Trunc(v) || len(labels) > outputs {
					labels = nil
					break
				}
			}
			if len(labels) > 1 {
				found = append(found, j)
			}
		}
		if len(found) == 1 {
			return option.Textf("give {target=%s} if that holds the labels", job.Word(d.Columns[found[0]]))
		}
	}
	return option.Textf("name with {target} the column of labels, or %d of numbers with commas between them", outputs)
}

// Class is the label of the network's largest output; undefined for a regression.
func (t *problemTask) Class(f []float64) result.Float {
	if t.Classes == nil {
		return result.Undefined()
	}
	return result.Float(t.Classes[largestClass(f)])
}

// Labels are the classes as reports show them; nil for a regression.
func (t *problemTask) Labels() []result.Float {
	if t.Classes == nil {
		return nil
	}
	out := make([]result.Float, len(t.Classes))
	for i, k := range t.Classes {
		out[i] = result.Float(k)
	}
	return out
}

// Quantity names the output of a regression on a target.
func (t *problemTask) Quantity(target string) string {
	if _, ok := t.Likelihood.(glm.Counting); ok {
		if target != "" {
			target = " of " + target
		}
		target = "log rate" + target
	}
	return job.OneLine(job.Cut(target, 40))
}

// largestClass is the number of the class with the largest output; one output speaks for the second class where it is
// positive.
func largestClass(f []float64) int {
	if len(f) == 1 {
		if f[0] > 0 {
			return 1
		}
		return 0
	}
	return floats.MaxIdx(f)
}
