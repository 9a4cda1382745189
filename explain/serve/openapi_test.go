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

	"github.com/funcgp/funcgp/internal/testref"
)

// api is openapi.json.
type api struct {
	Info struct {
		License struct{ Identifier string }
	}
	Servers    []struct{ URL string }
	Security   []any
	Tags       []struct{ Name, Description string }
	Paths      map[string]map[string]operation
	Components struct{ Responses map[string]response }
}

type operation struct {
	OperationID          string
	Tags                 []string
	Summary, Description string
	Responses            map[string]response
}

// A response has its content, or says which of the components it is.
type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]struct{ Schema any }
}

// response is an answer of an operation, and where in the file it is, as the fragment of an address.
func (a *api) response(path, method, status string) (r response, at string, ok bool) {
	r, ok = a.Paths[path][method].Responses[status]
	if at = r.Ref; at != "" {
		r, ok = a.Components.Responses[strings.TrimPrefix(at, "#/components/responses/")]
		return r, at, ok
	}
	path = strings.NewReplacer("/", "~1", "{", "%7B", "}", "%7D").Replace(path)
	return r, "#/paths/" + path + "/" + method + "/responses/" + status, ok
}

func readAPI(t *testing.T) (api, *jsonschema.Compiler) {
	t.Helper()
	var a api
	require.NoError(t, json.Unmarshal(OpenAPI, &a))
	doc := testref.Must(jsonschema.UnmarshalJSON(bytes.NewReader(OpenAPI)))(t)
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

// Every operation has what generators of clients and of pages go by: a name of its own, a known tag, a sentence, the
// refusals that every path may give, and the JSON of each refusal. Unless there is a token nobody is asked who they are,
// and the file says so.
func TestOpenAPISuitsGenerators(t *testing.T) {
	a, _ := readAPI(t)
	require.Equal(t, "BSD-3-Clause", a.Info.License.Identifier)
	require.Equal(t, "/", a.Servers[0].URL)
	require.Equal(t, []any{map[string]any{}, map[string]any{"token": []any{}}}, a.Security)
	names, tags, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, tag := range a.Tags {
		require.NotEmpty(t, tag.Description, tag.Name)
		tags[tag.Name] = false
	}
	for path, methods := range a.Paths {
		for method, o := range methods {
			require.Regexp(t, "^[a-z][A-Za-z]+$", o.OperationID, path)
			require.False(t, names[o.OperationID], o.OperationID)
			names[o.OperationID] = true
			require.NotEmpty(t, o.Description, path)
			require.Len(t, o.Tags, 1, path)
			require.Contains(t, tags, o.Tags[0])
			tags[o.Tags[0]] = true
			for _, status := range []string{"401", "403", "421", "500"} {
				require.Contains(t, o.Responses, status, path)
			}
			for status, r := range o.Responses {
				used[r.Ref] = true
				r, _, ok := a.response(path, method, status)
				require.True(t, ok, "%s %s", path, status)
				if status != "200" {
					require.Equal(t, map[string]any{"$ref": "#/components/schemas/Error"}, r.Content["application/json"].Schema, "%s %s", path, status)
				}
			}
		}
	}
	require.NotContains(t, slices.Collect(maps.Values(tags)), false, "a tag is on no operation")
	for name := range a.Components.Responses {
		require.True(t, used["#/components/responses/"+name], "no operation answers %s", name)
	}
}

// described checks an answer against what the file says of it: the status, the type and
// the JSON, of which it knows every member.
func described(t *testing.T, h *Server, method, path, kind, body string) {
	t.Helper()
	a, c := readAPI(t)
	at := regexp.MustCompile(`\d+/picture`).ReplaceAllString(strings.SplitN(path, "?", 2)[0], "{row}/picture")
	w := ask(h, method, path, kind, body)
	r, where, ok := a.response(at, strings.ToLower(method), strconv.Itoa(w.Code))
	require.True(t, ok, "%s is not described: %s", where, w.Body)
	require.Contains(t, slices.Collect(maps.Keys(r.Content)), strings.SplitN(w.Header().Get("Content-Type"), ";", 2)[0], where)
	if w.Header().Get("Content-Type") != "application/json" {
		return
	}
	s := testref.Must(c.Compile("openapi.json" + where + "/content/application~1json/schema"))(t)
	v := testref.Must(jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes())))(t)
	require.NoError(t, s.Validate(v), "%s %s: %s", method, path, w.Body)
}

// Every answer, and every kind of refusal, is as the file describes it.
func TestOpenAPIDescribesAnswers(t *testing.T) {
	for name, args := range map[string][]string{
		"digits": digits(), "uncalibrated": digits("--calibrate", "none"), "nystrom": digits("--method", "nystrom", "--inducing", "30"), "theta": digits("--refit=false"), "kept": digits("--method", "kept"), "parameters": digits(parameters...),
		"table": tableOfNames(t, "x"), "targets": corpus("two-targets", "--target", "voltage,power"), "labels": corpus("several-labels", "--target", "comedy,drama,family"), "colour": corpus("pictures-colour"), "words": corpus("string-labels", "--id", "id"),
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "digits" && name != "parameters" {
				t.Skip("one request after the other; the other kinds of posterior are asked in the long run")
			}
			s := newServer(t, args...)
			for _, r := range routes {
				if r.method == "GET" && !strings.Contains(r.path, "{row}") {
					described(t, s, "GET", r.path, "", "")
				}
			}
			train := trainingNumbers(t, s.service.Load().front)
			row := int(get[rows](t, s, "GET", "/v1/rows?from=2&count=3", "").Rows[0].Index)
			for _, body := range []string{
				fmt.Sprintf(`{"row":%d}`, row), fmt.Sprintf(`{"row":%d,"top":1,"without":[%d,%d]}`, row, train[0], train[1]), fmt.Sprintf(`{"row":%d,"output":0}`, row), fmt.Sprintf(`{"row":%d,"flip":true}`, row), fmt.Sprintf(`{"row":%d,"influence":true}`, row), fmt.Sprintf(`{"row":%d,"coverage":0.8}`, row),
				`{`, `{"row":-4}`, `{"values":[1]}`, `{"row":1,"table":"1"}`, `{"unknown":1}`, `{"contrast":["a"],"row":` + strconv.Itoa(row) + `}`,
			} {
				described(t, s, "POST", "/v1/explain", "application/json", body)
				described(t, s, "POST", "/v1/predict", "application/json", body)
			}
			described(t, s, "POST", "/v1/predict", "text/plain", "x")
			described(t, s, "POST", "/v1/predict", "application/json", marshal(t, map[string]any{"rows": numbersOf(t, s, 2)}))
			described(t, s, "POST", "/v1/predict", npyType, array(t, numbersOf(t, s, 2)))
			described(t, s, "POST", "/v1/explain", npyType, array(t, numbersOf(t, s, 2)))
			described(t, s, "POST", "/v1/predict", "text/csv", strings.Repeat("1,", bodyBytes))
			described(t, s, "GET", "/v1/rows?from=x", "", "")
			described(t, s, "GET", fmt.Sprintf("/v1/train/%d/picture", train[0]), "", "")
			described(t, s, "GET", fmt.Sprintf("/v1/test/%d/picture", row), "", "")
			described(t, s, "GET", "/v1/test/99999999/picture", "", "")
		})
	}
	s := NewServer(nil)
	for _, path := range []string{"/v1/model", "/v1/rows", "/readyz", "/healthz", "/metrics", "/v1/version", "/v1/train/1/picture"} {
		described(t, s, "GET", path, "", "")
	}
	described(t, s, "POST", "/v1/predict", "application/json", `{"row":1}`)
}

// What the file says a request may have is what a request may have.
func TestOpenAPIDescribesRequests(t *testing.T) {
	_, c := readAPI(t)
	s := testref.Must(c.Compile("openapi.json#/components/schemas/Request"))(t)
	var want []string
	for name := range s.Properties {
		want = append(want, name)
		require.NoError(t, new(request).decode([]byte(fmt.Sprintf(`{%q:null}`, name)), nil, 1, 1))
	}
	r := "{" + `"row":1,"values":[1],"picture":"AA==","table":"1","rows":[[1],[2]],"fit":"ink","invert":"no","top":1,"contrast":["a","b"],"output":1,"without":[1],"flip":true,"influence":true,"coverage":0.5` + "}"
	require.NoError(t, new(request).decode([]byte(r), nil, 1, 2))
	v := testref.Must(jsonschema.UnmarshalJSON(strings.NewReader(r)))(t)
	require.NoError(t, s.Validate(v))
	require.Len(t, want, len(v.(map[string]any)))
}
