package funcgp

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/option"
)

// Errors and warnings name what a program writes, and not the flags of the command.
func TestErrorsNameGo(t *testing.T) {
	for what, fit := range map[string]struct {
		model   Model
		data    Data
		options FitOptions
		want    string
	}{
		"likelihood":   {options: FitOptions{Likelihood: "normal"}, want: `funcgp: Likelihood "normal" must be gaussian, bernoulli`},
		"decay":        {options: FitOptions{Prior: WeightDecay(-1)}, want: "funcgp: WeightDecay -1 must be a positive number"},
		"no decay":     {options: FitOptions{Prior: WeightDecay(0)}, want: "leave it out, and choose a precision with Tuned loo"},
		"precision":    {options: FitOptions{Prior: Precision(-1)}, want: "funcgp: Precision -1 must be a positive number"},
		"classes":      {data: Data{Classes: []string{"4"}}, want: "funcgp: Data.Classes 4 is one class; name at least two with commas between them, as in 0,1,2"},
		"names":        {data: Data{Classes: []string{"4", "9"}, ClassNames: []string{"a", "b", "c"}}, want: "Data.Classes has 2 classes, but Data.ClassNames names 3"},
		"rows":         {data: Data{Source: "mnist", TestFile: "a.csv"}, want: "funcgp: Data.TestFile is for a CSV file, not Data.Source mnist"},
		"count, file":  {data: Data{TrainCount: 10, TrainFile: "rows.txt"}, want: "Data.TrainCount and Data.TrainFile exclude each other"},
		"model":        {model: Model{File: "none.onnx"}, want: "funcgp: none.onnx: "},
		"data":         {data: Data{Source: "none.csv"}, want: "funcgp: none.csv: "},
		"too inducing": {options: FitOptions{Method: Method{Name: "nystrom", Inducing: 100000}}, want: "Method.Inducing 100000: there are"},
	} {
		_, err := Fit(t.Context(), fit.model, fit.data, &fit.options)
		require.ErrorContains(t, err, fit.want, what)
		require.NotContains(t, err.Error(), "--", what)
	}
	library, err := os.ReadFile("doc/library.md")
	require.NoError(t, err)
	for _, o := range option.Table {
		if o.Go == "" {
			continue
		}
		where, field, ok := strings.Cut(o.Go, ".")
		if !ok {
			where, field = "", o.Go
		}
		_, found := reflect.TypeFor[*TrainingSet]().MethodByName(field)
		for of, value := range map[string]any{"Model": Model{}, "Data": Data{}, "Method": Method{}, "FitOptions": FitOptions{}, "SaveOptions": SaveOptions{}, "PredictOptions": PredictOptions{}, "ExplainOptions": ExplainOptions{}, "Limits": Limits{}, "ReadOptions": ReadOptions{}} {
			if _, has := reflect.TypeOf(value).FieldByName(field); has && (where == "" || where == of) {
				found = true
			}
		}
		require.True(t, found || slices.Contains([]string{"Precision", "WeightDecay", "Tuned"}, o.Go), "no %s", o.Go)
		require.Contains(t, string(library), "`--"+o.Name+"`", "doc/library.md has all in a table")
	}
}

// The file of a posterior records the options that the table says it keeps.
func TestSettingsAreKept(t *testing.T) {
	var kept, recorded []string
	for _, o := range option.Table {
		if o.Kept {
			kept = append(kept, o.Name)
		}
	}
	for _, s := range settings {
		recorded = append(recorded, s.flag)
	}
	require.ElementsMatch(t, kept, recorded)
}

// A field of an answer and its member in JSON have one name.
func TestFieldsAreMembers(t *testing.T) {
	words := regexp.MustCompile(`([a-z])([A-Z])|(MAP)([A-Z])`)
	for _, answer := range []any{Prediction{NamedRow: &result.NamedRow{ID: "a", LabelName: "a", Targets: []result.Float{1}}, NetworkClass: new(result.Float), ClassName: "a", Novelty: &Novelty{}, Region: Region{Interval: []result.Float{}, Set: []result.Float{}},
		ObservationMean: []result.Float{1}, ObservationSD: []result.Float{1}, FunctionSD: []result.Float{1}, Calibration: &result.Scales{}}, Novelty{}, Info{Bound: "lower", Columns: []string{"a"}, Target: "a", Classes: []string{"a"}, Labels: []string{"a"}}} {
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(text, &members))
		for _, f := range reflect.VisibleFields(reflect.TypeOf(answer)) {
			if f.Anonymous || f.Tag.Get("json") == "-" {
				continue // for programs in Go alone
			}
			name := strings.ToLower(words.ReplaceAllString(f.Name, "${1}${3}_${2}${4}"))
			require.Contains(t, members, name, "%T.%s in %s", answer, f.Name, text)
			delete(members, name)
		}
		require.Empty(t, members, "%T", answer)
	}
}
