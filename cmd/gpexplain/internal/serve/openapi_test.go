package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// api is openapi.json.
type api struct {
	Paths map[string]map[string]struct {
		Summary   string
		Responses map[string]struct {
			Content map[string]struct{ Schema any }
		}
	}
}

func readAPI(t *testing.T) (api, *jsonschema.Compiler) {
	t.Helper()
	var a api
	require.NoError(t, json.Unmarshal(OpenAPI, &a))
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(OpenAPI))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, c.AddResource("openapi.json", doc))
	return a, c
}

// The file has the paths and methods of the server, and no others.
func TestOpenAPIHasAllPaths(t *testing.T) {
	a, _ := readAPI(t)
	var have, want []string
	for path, methods := range a.Paths {
		for method, m := range methods {
			require.NotEmpty(t, m.Summary)
			have = append(have, strings.ToUpper(method)+" "+path)
		}
	}
	for _, r := range routes {
		want = append(want, r.method+" "+r.path)
	}
	require.ElementsMatch(t, want, have)
}

// described checks an answer against what the file says of it: the status, the type and
// the JSON, of which it knows every member.
func described(t *testing.T, h *Server, method, path, kind, body string) {
	t.Helper()
	a, c := readAPI(t)
	at := regexp.MustCompile(`\d+/picture`).ReplaceAllString(strings.SplitN(path, "?", 2)[0], "{row}/picture")
	w := ask(h, method, path, kind, body)
	where := fmt.Sprintf("paths/%s/%s/responses/%d", at, strings.ToLower(method), w.Code)
	r, ok := a.Paths[at][strings.ToLower(method)].Responses[strconv.Itoa(w.Code)]
	require.True(t, ok, "%s is not described: %s", where, w.Body)
	require.Contains(t, slices.Collect(maps.Keys(r.Content)), strings.SplitN(w.Header().Get("Content-Type"), ";", 2)[0], where)
	if w.Header().Get("Content-Type") != "application/json" {
		return
	}
	pointer := "openapi.json#/" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace("paths/"+strings.ReplaceAll(at, "/", "~1")) + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(w.Code) + "/content/application~1json/schema"
	s, err := c.Compile(pointer)
	require.NoError(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	require.NoError(t, err)
	require.NoError(t, s.Validate(v), "%s %s: %s", method, path, w.Body)
}

// Every answer, and every kind of refusal, is as the file describes it.
func TestOpenAPIDescribesAnswers(t *testing.T) {
	for name, args := range map[string][]string{
		"digits": digits(), "uncalibrated": digits("--calibrate", "none"), "nystrom": digits("--method", "nystrom", "--inducing", "30"), "theta": digits("--refit=false"), "kept": digits("--method", "kept"), "cg": digits("--method", "cg"),
		"table": tableOfNames(t, "x"), "targets": corpus("two-targets", "--target", "voltage,power"), "colour": corpus("pictures-colour"), "words": corpus("string-labels", "--id", "id"),
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "digits" && name != "cg" {
				t.Skip("one request after the other; the other kinds of posterior are asked in the long run")
			}
			s := newServer(t, args...)
			for _, r := range routes {
				if r.method == "GET" && !strings.Contains(r.path, "{row}") {
					described(t, s, "GET", r.path, "", "")
				}
			}
			train := s.service.Load().Problem.Examples.Train.Rows
			row := get[Rows](t, s, "GET", "/v1/rows?from=2&count=3", "").Rows[0].Index
			for _, body := range []string{
				fmt.Sprintf(`{"row":%d}`, row), fmt.Sprintf(`{"row":%d,"top":1,"without":[%d,%d]}`, row, train[0], train[1]), fmt.Sprintf(`{"row":%d,"output":0}`, row),
				`{`, `{"row":-4}`, `{"values":[1]}`, `{"row":1,"table":"1"}`, `{"unknown":1}`, `{"contrast":["a"],"row":` + strconv.Itoa(row) + `}`,
			} {
				described(t, s, "POST", "/v1/explain", "application/json", body)
				described(t, s, "POST", "/v1/predict", "application/json", body)
			}
			described(t, s, "POST", "/v1/predict", "text/plain", "x")
			described(t, s, "POST", "/v1/predict", "text/csv", strings.Repeat("1,", bodyBytes))
			described(t, s, "GET", "/v1/rows?from=x", "", "")
			described(t, s, "GET", fmt.Sprintf("/v1/train/%d/picture", train[0]), "", "")
			described(t, s, "GET", fmt.Sprintf("/v1/test/%d/picture", row), "", "")
			described(t, s, "GET", "/v1/test/99999999/picture", "", "")
		})
	}
	s := NewServer(&Limits{})
	for _, path := range []string{"/v1/model", "/v1/rows", "/readyz", "/healthz", "/metrics", "/v1/train/1/picture"} {
		described(t, s, "GET", path, "", "")
	}
	described(t, s, "POST", "/v1/predict", "application/json", `{"row":1}`)
}

// What the file says a request may have is what a request may have.
func TestOpenAPIDescribesRequests(t *testing.T) {
	_, c := readAPI(t)
	s, err := c.Compile("openapi.json#/components/schemas/Request")
	require.NoError(t, err)
	var want []string
	for name := range s.Properties {
		want = append(want, name)
		require.NoError(t, new(Request).decode([]byte(fmt.Sprintf(`{%q:null}`, name)), 1))
	}
	r := "{" + `"row":1,"values":[1],"picture":"AA==","table":"1","fit":"ink","invert":"no","top":1,"contrast":["a","b"],"output":1,"without":[1]` + "}"
	require.NoError(t, new(Request).decode([]byte(r), 1))
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(r))
	require.NoError(t, err)
	require.NoError(t, s.Validate(v))
	require.Len(t, want, len(v.(map[string]any)))
}
