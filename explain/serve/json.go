package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// Defaults and bounds of a request.
const (
	defaultTerms = 8   // of each side, unless a request says otherwise
	mostTerms    = 100 // of each side
	mostRemoved  = 200 // training examples that are left out at a time
	mostListed   = 200 // test rows that are listed at a time
)

// A request asks about one input, by one of Row, Values, Picture and Table; or about several, by Rows or Array.
type request struct {
	Row     *int       `json:"row"`     // number of a test row in the original file
	Values  []float64  `json:"values"`  // D numbers: grey levels from 0 to 255, or features in the units of the data, which JSON may give by column name
	Picture []byte     `json:"picture"` // a PNG or JPEG file, base64 in JSON
	Table   *string    `json:"table"`   // a CSV file of one row
	Rows    *mat.Dense `json:"rows"`    // a list of rows, each given as Values
	Array   []byte     `json:"-"`       // rows as a .npy file

	Fit    string `json:"fit"`    // for a picture: frame (the default) keeps all of it, ink centres what is drawn on it
	Invert string `json:"invert"` // for a picture: auto (the default), yes or no

	Top       *int     `json:"top"`       // terms to list of each side
	Contrast  []string `json:"contrast"`  // two classes, or outputs of a regression
	Output    *int     `json:"output"`    // output to explain
	Without   []int    `json:"without"`   // training rows to leave out
	Flip      bool     `json:"flip"`      // look for few training rows whose removal changes the class
	Influence bool     `json:"influence"` // compute explain.Term.Influence of each listed row
	Coverage  *float64 `json:"coverage"`  // probability with which an interval or a set of classes shall contain the target

	page   bool         // whether to answer with an HTML page
	scored *funcgp.Rows // the rows it asks about, once they are read
}

// inputs returns how many of the members that give inputs the request has.
func (ask *request) inputs() (n int) {
	for _, given := range []bool{ask.Row != nil, ask.Values != nil, ask.Picture != nil, ask.Table != nil, ask.Rows != nil, ask.Array != nil} {
		if given {
			n++
		}
	}
	return n
}

// decode reads one JSON object and nothing else. It reads numbers and names one by one and stops at the first invalid
// one, so that its memory is bounded by what a request may contain and not by the size of the body. An input has d
// numbers, with names if there are columns; the request has at most most rows.
func (ask *request) decode(body []byte, columns []string, d, most int) error {
	j := json.NewDecoder(bytes.NewReader(body))
	bad := func(err error) error {
		if r := (*refusal)(nil); errors.As(err, &r) {
			return err
		}
		return refusef(http.StatusBadRequest, "bad_json", "the body is not the JSON that openapi.json describes: %.300s", err)
	}
	begin, err := j.Token()
	if err != nil || begin != nil && begin != json.Delim('{') {
		return bad(cmp.Or(err, fmt.Errorf("it begins with %.40v, and not with an object", begin)))
	}
	seen := map[string]bool{}
	for begin != nil && j.More() {
		key, err := j.Token()
		if err != nil {
			return bad(err)
		}
		name, _ := key.(string) // the decoder allows no other key
		if seen[name] {
			return bad(fmt.Errorf("%q is given twice", name))
		}
		seen[name] = true
		switch name {
		case "row":
			err = j.Decode(&ask.Row)
		case "values":
			var begin json.Token
			if begin, err = j.Token(); err == nil && begin == json.Delim('{') {
				ask.Values, err = decodeNamed(j, columns, option.Named("values"))
			} else if err == nil && begin != nil {
				var list []*float64
				list, err = decodeListFrom[*float64](j, begin, d, refusef(unprocessable, "bad_values", "{values}: more than %d numbers, which is what an input has", d))
				ask.Values = make([]float64, len(list))
				for i, v := range list {
					if v == nil {
						return refusef(unprocessable, "bad_values", "{values}: number %d is null; give a number", i)
					}
					ask.Values[i] = *v
				}
			}
		case "picture":
			err = j.Decode(&ask.Picture)
		case "table":
			err = j.Decode(&ask.Table)
		case "rows":
			ask.Rows, err = decodeRows(j, columns, d, most)
		case "fit":
			err = j.Decode(&ask.Fit)
		case "invert":
			err = j.Decode(&ask.Invert)
		case "top":
			err = j.Decode(&ask.Top)
		case "contrast":
			ask.Contrast, err = decodeList[string](j, 2, refusef(unprocessable, "bad_contrast", "{contrast}: more than 2 names; give two"))
		case "output":
			err = j.Decode(&ask.Output)
		case "without":
			ask.Without, err = decodeList[int](j, mostRemoved, refusef(unprocessable, "bad_without", "{without}: more than %d rows; take out at most so many at a time", mostRemoved))
		case "flip":
			err = j.Decode(&ask.Flip)
		case "influence":
			err = j.Decode(&ask.Influence)
		case "coverage":
			err = j.Decode(&ask.Coverage)
		default:
			err = fmt.Errorf("unknown field %.40q", name)
		}
		if err != nil {
			return bad(err)
		}
	}
	if begin != nil {
		if _, err := j.Token(); err != nil {
			return bad(err)
		}
	}
	if _, err := j.Token(); err != io.EOF {
		return refusef(http.StatusBadRequest, "bad_json", "something follows the JSON object")
	}
	return nil
}

// decodeNamed reads the rest of an object that has a number for each of these columns, and returns them in the order of
// the columns. Errors begin with where, the place of the object in the request, which names the member.
func decodeNamed(j *json.Decoder, columns []string, where option.Text) ([]float64, error) {
	member := where.Named()[0]
	bad := func(format string, a ...any) error {
		return refusef(unprocessable, "bad_"+member, "%s: %s; give a number for each of %s and nothing else", where, fmt.Sprintf(format, a...), option.QuoteList(columns))
	}
	if columns == nil {
		return nil, refusef(unprocessable, "bad_"+member, "%s: the inputs have no names; give a list of numbers", where)
	}
	row, found := make([]float64, len(columns)), make([]bool, len(columns))
	for j.More() {
		key, err := j.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string) // the decoder allows no other key
		at := slices.Index(columns, name)
		if at < 0 {
			return nil, bad("there is no column %.60q", name)
		}
		if found[at] {
			return nil, bad("column %.60q is given twice", name)
		}
		token, err := j.Token()
		if err != nil {
			return nil, err
		}
		v, ok := token.(float64)
		if !ok {
			return nil, bad("column %.60q has %.40v", name, cmp.Or(token, any("null")))
		}
		row[at], found[at] = v, true
	}
	if _, err := j.Token(); err != nil {
		return nil, err
	}
	var missing []string
	for i, ok := range found {
		if !ok {
			missing = append(missing, columns[i])
		}
	}
	if missing != nil {
		return nil, bad("column %s is missing", option.QuoteList(missing))
	}
	return row, nil
}

// decodeRows reads a list of rows, each d numbers or an object as decodeNamed reads it; null is nil.
func decodeRows(j *json.Decoder, columns []string, d, most int) (*mat.Dense, error) {
	bad := refusef(unprocessable, "bad_rows", "{rows}: give a list of 1 to %d rows, each a list of %d numbers, or an object of as many by the names of the columns", most, d)
	begin, err := j.Token()
	if err != nil || begin == nil {
		return nil, err
	}
	if begin != json.Delim('[') || !j.More() {
		return nil, bad
	}
	var x []float64
	n := 0
	for ; j.More(); n++ {
		if begin, err = j.Token(); err != nil {
			return nil, err
		}
		if begin == json.Delim('{') && n < most {
			row, err := decodeNamed(j, columns, option.Textf("{rows}: row %d", n))
			if err != nil {
				return nil, err
			}
			x = append(x, row...)
			continue
		}
		if begin != json.Delim('[') || n == most {
			return nil, bad
		}
		k := 0
		for ; j.More(); k++ {
			token, err := j.Token()
			if err != nil {
				return nil, err
			}
			v, ok := token.(float64)
			if !ok || k == d {
				return nil, bad
			}
			x = append(x, v)
		}
		if _, err = j.Token(); err != nil {
			return nil, err
		}
		if k != d {
			return nil, bad
		}
	}
	_, err = j.Token()
	return mat.NewDense(n, d, x), err
}

// decodeList reads a list of at most most elements; null gives nil.
func decodeList[T any](j *json.Decoder, most int, tooMany *refusal) ([]T, error) {
	begin, err := j.Token()
	if err != nil || begin == nil {
		return nil, err
	}
	return decodeListFrom[T](j, begin, most, tooMany)
}

// decodeListFrom is decodeList after the first token, which is not null.
func decodeListFrom[T any](j *json.Decoder, begin json.Token, most int, tooMany *refusal) ([]T, error) {
	if begin != json.Delim('[') {
		return nil, fmt.Errorf("%.40v is no list", begin)
	}
	list := []T{}
	for j.More() {
		if len(list) == most {
			return nil, tooMany
		}
		var one T
		if err := j.Decode(&one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	_, err := j.Token()
	return list, err
}

// A subject says what was asked about.
type subject struct {
	Split string `json:"split"` // test or valid; request for an input of the caller's own
	result.NamedRow
	Notes   []string       `json:"notes,omitempty"`   // how a picture was changed to fit the network
	Picture string         `json:"picture,omitempty"` // the input as the network takes it, as a data URL of a PNG
	Values  []result.Float `json:"values,omitempty"`  // features, in the order of the columns of /v1/model
}

// A prediction is the answer of /v1/predict for one input.
type prediction struct {
	Schema     string            `json:"schema"`
	Input      subject           `json:"input"`
	Classes    []string          `json:"classes,omitempty"` // names in the order of the probabilities; none for a regression
	Labels     []string          `json:"labels,omitempty"`  // names of labels if a row may have any number of them; else none
	Prediction result.Prediction `json:"prediction"`
}

// An explanation is the answer of /v1/explain.
type explanation struct {
	prediction
	Score   score    `json:"score"`
	Sum     sum      `json:"sum"`
	For     []term   `json:"for"`     // the largest positive scores, largest first
	Against []term   `json:"against"` // the largest negative scores, largest in size first
	Without *without `json:"without,omitempty"`

	SmallestFlip *result.SmallestFlip `json:"smallest_flip,omitempty"`
}

// A score explains the scores of an explanation to a reader.
type score struct {
	Title    string `json:"title"`    // in a few words, what is explained
	Says     string `json:"says"`     // what a score is, in a sentence or two
	Quantity string `json:"quantity"` // the quantity that the scores add up to
	Unit     string `json:"unit"`
	Positive string `json:"positive"` // the outcome that a positive score speaks for
	Negative string `json:"negative"`
}

// A sum writes the network's output as prior mean plus the scores of all examples plus
// a remainder.
type sum struct {
	result.NetworkSum
	Examples int `json:"examples"`
}

// A term is the score of one training example.
type term struct {
	result.NamedRow
	Value      result.Float   `json:"value"`               // C(x*,x_i) b_i (E14), with the sign of the score
	Removal    result.Float   `json:"removal"`             // change of the quantity on leaving the example out (E15)
	Influence  *result.Float  `json:"influence,omitempty"` // the quantity with the example minus without it, the others at half weight (E23); nil unless asked for
	Similarity result.Float   `json:"similarity"`          // posterior correlation with the input
	Values     []result.Float `json:"values,omitempty"`

	// As the fields of explain.Term.
	SD              *result.Float `json:"sd,omitempty"`
	Distinguishable *bool         `json:"distinguishable,omitempty"`
}

// A without is the prediction without some training examples.
type without struct {
	Rows            []int          `json:"rows"`  // of the original file
	Order           string         `json:"order"` // refit: the linearized model is refitted without them; first: the first-order changes are added up
	Mean            []result.Float `json:"mean"`
	Class           result.Float   `json:"class"` // label of the class of the largest output; null for a regression
	ClassName       string         `json:"class_name,omitempty"`
	ClassBefore     string         `json:"class_before,omitempty"` // the class with the examples, computed from the mean as well
	Probability     []result.Float `json:"probability"`            // null for a regression
	ProbabilitySD   []result.Float `json:"probability_sd"`
	ObservationMean []result.Float `json:"observation_mean,omitempty"` // regression only
}

// A question is the number that is explained.
type question struct {
	sign float64 // −1 if a positive output speaks against the outcome that positive scores speak for
	score
}

// odds sets the texts for scores that add up to the log-odds of one class against another.
func (q *question) odds(plus, minus string, n int) {
	q.score = score{Title: fmt.Sprintf("Why %s rather than %s", plus, minus), Quantity: fmt.Sprintf("log-odds of %s against %s", plus, minus), Unit: "nats", Positive: "for " + plus, Negative: "for " + minus}
	q.Says = fmt.Sprintf("A score is what one training example adds to the log-odds of %s against %s, in nats: positive speaks for %s, negative for %s. The scores of all %s examples, the prior mean and the remainder add up to the network's log-odds.", plus, minus, plus, minus, job.Count(n))
}

// outputName returns the name of the class, label or target of an output, or the output's number.
func (s *service) outputName(k int) string {
	for _, names := range [][]string{s.info.Classes, s.outputs} {
		if k < len(names) {
			return names[k]
		}
	}
	return strconv.Itoa(k)
}

// output names an output of a regression.
func (s *service) output(k int) string {
	if k < len(s.outputs) {
		return s.outputs[k]
	}
	return fmt.Sprintf("output %d", k)
}

func (q *question) sum(o *funcgp.Output, n int) sum {
	f := func(v result.Float) result.Float { return result.Float(q.sign) * v }
	return sum{result.NetworkSum{Network: f(o.Network), PriorMean: f(o.PriorMean), ContributionSum: f(o.ContributionSum), Remainder: f(o.Network - o.PriorMean - o.ContributionSum)}, n}
}

// terms returns a list of contributions in the form of the JSON.
func (s *service) terms(ctx context.Context, q *question, list []funcgp.Contribution) ([]term, error) {
	out := make([]term, len(list))
	var err error
	show := s.front.Pictures(ctx, &err)
	for i := range out {
		c := list[i].Signed(q.sign)
		out[i] = term{NamedRow: result.NamedRow{Index: c.Index, Label: c.Label, LabelName: c.LabelName, ID: c.ID}, Value: c.Value, Removal: c.Removal, Influence: c.Influence, Similarity: c.Similarity, SD: c.SD, Distinguishable: c.Distinguishable}
		if s.info.Columns != nil {
			out[i].Values = result.Floats(show(c.Index).Values)
		}
	}
	return out, err
}
