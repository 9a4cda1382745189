package serve

import (
	"context"
	"embed"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/option"
)

//go:embed static/index.html static/app.js static/style.css
var static embed.FS

// OpenAPI describes the paths and the JSON (OpenAPI 3.1).
//
//go:embed openapi.json
var OpenAPI []byte

// A route is a method and path with the function that answers it.
type route struct {
	method, path string
	handle       func(s *Server, w http.ResponseWriter, r *http.Request)
}

// routes lists all paths that the server answers; openapi.json describes them.
var routes = []route{
	{"GET", "/", file("index.html", "text/html; charset=utf-8")},
	{"GET", "/static/app.js", file("app.js", "text/javascript; charset=utf-8")},
	{"GET", "/static/style.css", file("style.css", "text/css; charset=utf-8")},
	{"GET", "/healthz", func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 200, map[string]string{"status": "ok"})
	}},
	{"GET", "/readyz", func(s *Server, w http.ResponseWriter, _ *http.Request) {
		s.write(w, map[string]string{"status": "ready"}, s.unready())
	}},
	{"GET", "/metrics", (*Server).metrics},
	{"GET", "/openapi.json", func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(OpenAPI) // the client may have disconnected
	}},
	{"GET", "/v1/version", func(s *Server, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 200, version{s.options.Version, 1, os.Getpid()})
	}},
	{"GET", "/v1/model", answers(func(s *service, _ *http.Request) (any, error) { return s.model(), nil })},
	{"GET", "/v1/rows", answers((*service).rows)},
	{"GET", "/v1/train/{row}/picture", answers(shown(func(ctx context.Context, s *service, row int) (p result.Picture, err error) {
		if _, ok := s.position[row]; !ok {
			return p, errNoRow
		}
		p = s.front.Pictures(ctx, &err)(result.Index(row))
		return p, err
	}))},
	{"GET", "/v1/test/{row}/picture", answers(shown(func(ctx context.Context, s *service, row int) (p result.Picture, err error) {
		rows, err := s.front.TestRows(ctx, row)
		if err != nil {
			return p, errNoRow
		}
		return rows.Shown(ctx, 0)
	}))},
	{"POST", "/v1/predict", computed(func(ctx context.Context, s *service, r *request) (any, error) { return s.predict(ctx, r) })},
	{"POST", "/v1/explain", computed(func(ctx context.Context, s *service, r *request) (any, error) { return s.explain(ctx, r) })},
}

// routes returns the handler of all paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		at := rt.path
		if at == "/" {
			at = "/{$}"
		}
		mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != rt.method && !(rt.method == "GET" && r.Method == "HEAD") {
				w.Header().Set("Allow", rt.method)
				s.refuse(w, refusef(http.StatusMethodNotAllowed, "bad_method", "%s takes %s, not %s", rt.path, rt.method, r.Method))
				return
			}
			rt.handle(s, w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.refuse(w, notFound(r)) })
	return mux
}

// routeOf returns the path of the route that answered a request, or "other".
func routeOf(r *http.Request) string {
	switch r.Pattern {
	case "", "/":
		return "other"
	case "/{$}":
		return "/"
	}
	return r.Pattern
}

func notFound(r *http.Request) *refusal {
	return refusef(http.StatusNotFound, "no_path", "there is nothing at %q; /openapi.json lists all paths", r.URL.Path)
}

// file answers with a file of the page.
func file(name, kind string) func(*Server, http.ResponseWriter, *http.Request) {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		b, err := static.ReadFile("static/" + name)
		if err != nil {
			panic("serve: a file of the page is missing")
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(b) // the client may have disconnected
	}
}

// begin returns the service, whose posterior stays open until end is called, or an error if there is no service.
func (s *Server) begin() (v *service, end func(), err error) {
	for v = s.service.Load(); v != nil; {
		if end, err = v.front.Hold(); err == nil {
			return v, end, nil
		}
		was := v // it is closed, perhaps because Ready replaced it
		if v = s.service.Load(); v == was {
			break
		}
	}
	r := refusef(http.StatusServiceUnavailable, "not_ready", "the posterior is not ready; try again in some seconds")
	r.wait = 2
	return nil, nil, r
}

// by calls do with the service. If the posterior is closed meanwhile, it calls do again with the next service.
func (s *Server) by(do func(v *service) (any, error)) (any, error) {
	for {
		v, end, err := s.begin()
		if err != nil {
			return nil, err
		}
		object, err := func() (any, error) {
			defer end() // release the posterior before a slow client reads the answer
			return do(v)
		}()
		if !errors.Is(err, funcgp.ErrClosed) {
			return object, err
		}
	}
}

// unready returns an error if there is no service.
func (s *Server) unready() error {
	_, end, err := s.begin()
	if err == nil {
		end()
	}
	return err
}

// answers returns a handler that answers with what do returns.
func answers(do func(s *service, r *http.Request) (any, error)) func(*Server, http.ResponseWriter, *http.Request) {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		object, err := s.by(func(v *service) (any, error) { return do(v, r) })
		s.write(w, object, err)
	}
}

// computed returns a handler that answers with what do returns, within the limits of the gate.
func computed(do func(ctx context.Context, s *service, r *request) (any, error)) func(*Server, http.ResponseWriter, *http.Request) {
	return func(s *Server, w http.ResponseWriter, r *http.Request) {
		object, err := s.compute(w, r, do)
		s.write(w, object, err)
	}
}

func (s *Server) compute(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, s *service, r *request) (any, error)) (any, error) {
	if err := s.unready(); err != nil {
		return nil, err
	}
	// Find the type of the body: JSON, or a bare picture, table or array, whose other members are
	// parameters of the URL. A body that is compressed or not in UTF-8 is refused.
	for _, code := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(code, "identity") {
			return nil, refusef(http.StatusUnsupportedMediaType, "bad_encoding", "Content-Encoding %q; send the body uncompressed", code)
		}
	}
	text := strings.Join(r.Header.Values("Content-Type"), ", ")
	kind, more, err := mime.ParseMediaType(text)
	if err != nil || !slices.Contains(kinds, kind) {
		return nil, refusef(http.StatusUnsupportedMediaType, "bad_type", "Content-Type %q; send application/json, image/png, image/jpeg, text/csv or application/x-npy", text)
	}
	if set, ok := more["charset"]; ok && !strings.EqualFold(set, "utf-8") && !strings.EqualFold(set, "us-ascii") {
		return nil, refusef(http.StatusUnsupportedMediaType, "bad_charset", "Content-Type %q; send the text as UTF-8", text)
	}
	body, release, err := s.bodies.read(w, r)
	if err != nil {
		return nil, err
	}
	defer release()
	// Refuse the request if too many are waiting or running.
	g := s.gate
	if g.inside.Add(1) > g.most {
		g.inside.Add(-1)
		r := refusef(http.StatusServiceUnavailable, "busy", "%d requests are waiting or running, and no more are taken; try again in a second", g.most)
		r.wait = 1
		return nil, r
	}
	defer g.inside.Add(-1)
	ctx, cancel := context.WithTimeout(r.Context(), computeTime)
	defer cancel()
	// Wait until the request may be computed.
	select {
	case g.running <- struct{}{}:
		defer func() { <-g.running }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Decode the body only now, since the decoded request may take more memory than the body.
	object, err := s.by(func(v *service) (any, error) {
		ask, err := v.asked(r, kind, body)
		if err != nil {
			return nil, err
		}
		object, err := do(ctx, v, ask)
		if err == nil && s.log != nil {
			err = s.log.add(ctx, routeOf(r), v, ask, object)
		}
		return object, err
	})
	if err != nil {
		return nil, err
	}
	if p, ok := object.(*predictions); ok {
		if more, ok := accepts(r, npyType); ok && more["fields"] == "all" {
			return p.table()
		} else if ok {
			return p.npy()
		}
	}
	return object, nil
}

// asked decodes a body of the given type into a request.
func (s *service) asked(r *http.Request, kind string, body []byte) (ask *request, err error) {
	ask = new(request)
	_, ask.page = accepts(r, "text/html")
	switch kind {
	case "application/json":
		return ask, ask.decode(body, s.info.Columns, s.elements(), s.mostRows())
	case "text/csv":
		text := string(body)
		ask.Table = &text
	case npyType, "application/octet-stream":
		if !npy.Is(body) {
			return nil, refusef(unprocessable, "bad_rows", "{rows}: it is no .npy file")
		}
		ask.Array = body
	default:
		ask.Picture = body
	}
	return ask, ask.parameters(r)
}

// accepts tells whether the Accept header names a type, and returns the parameters of the type.
func accepts(r *http.Request, kind string) (parameters map[string]string, ok bool) {
	for one := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if name, more, err := mime.ParseMediaType(one); err == nil && name == kind {
			return more, true
		}
	}
	return nil, false
}

// npyType is the type of a .npy file.
const npyType = "application/x-npy"

// kinds lists the accepted types of bodies.
var kinds = []string{"application/json", "image/png", "image/jpeg", "text/csv", npyType, "application/octet-stream"}

// queryOf returns the parameters of the URL, or an error if one is malformed.
func queryOf(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refusef(http.StatusBadRequest, "bad_parameter", "%w; write parameters as a=1&b=2", err)
	}
	return query, nil
}

// parameters reads the members of a request that are given as parameters of the URL.
func (ask *request) parameters(r *http.Request) error {
	number := func(name, text string, into *int) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return refusef(http.StatusBadRequest, "bad_parameter", "%s %q is no whole number", option.Named(name), text)
		}
		*into = n
		return nil
	}
	query, err := queryOf(r)
	if err != nil {
		return err
	}
	for name, list := range query {
		value, n := list[0], 0
		var err error
		switch name {
		case "fit":
			ask.Fit = value
		case "invert":
			ask.Invert = value
		case "top":
			ask.Top, err = &n, number(name, value, &n)
		case "output":
			ask.Output, err = &n, number(name, value, &n)
		case "contrast":
			ask.Contrast = strings.Split(value, ",")
		case "without":
			for text := range strings.SplitSeq(value, ",") {
				if err = number(name, text, &n); err != nil {
					break
				}
				ask.Without = append(ask.Without, n)
			}
		case "flip", "influence":
			into := map[string]*bool{"flip": &ask.Flip, "influence": &ask.Influence}[name]
			if *into, err = strconv.ParseBool(value); err != nil {
				err = refusef(http.StatusBadRequest, "bad_parameter", "%s %q is neither true nor false", option.Named(name), value)
			}
		case "coverage":
			share, failed := strconv.ParseFloat(value, 64)
			if ask.Coverage = &share; failed != nil {
				err = refusef(http.StatusBadRequest, "bad_parameter", "{coverage} %q is no number", value)
			}
		default:
			err = refusef(http.StatusBadRequest, "bad_parameter", "there is no parameter %q; give fit, invert, top, output, contrast, without, flip, influence or coverage", name)
		}
		if err == nil && len(list) > 1 {
			err = refusef(http.StatusBadRequest, "bad_parameter", "%s is given %d times", option.Named(name), len(list))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errNoRow says that no row has the requested number.
var errNoRow = errors.New("there is no such row")

// shown returns a handler that answers with the picture of the row that find returns.
func shown(find func(ctx context.Context, s *service, row int) (result.Picture, error)) func(*service, *http.Request) (any, error) {
	return func(s *service, r *http.Request) (any, error) {
		row, err := strconv.Atoi(r.PathValue("row"))
		if err != nil || s.info.Columns != nil {
			return nil, notFound(r)
		}
		p, err := find(r.Context(), s, row)
		if errors.Is(err, errNoRow) {
			return nil, notFound(r)
		}
		if err != nil {
			return nil, err
		}
		return pngOf(p)
	}
}

// A version is the answer of /v1/version, which is available before the posterior is ready.
type version struct {
	Version string `json:"version"` // of the program
	API     int    `json:"api"`     // of the paths below /v1
	PID     int    `json:"pid"`     // of the process
}

// A model is the answer of /v1/model: it describes the network, the data and the posterior.
type model struct {
	Schema  string   `json:"schema"`
	Version string   `json:"version"`
	Model   string   `json:"model"`
	Data    string   `json:"data"`
	Classes []string `json:"classes,omitempty"` // in the order of the probabilities; none for a regression
	Labels  []string `json:"labels,omitempty"`  // the same of labels of which a row has any number; else none
	Target  string   `json:"target,omitempty"`  // name of the target of a regression
	Shape   []int    `json:"shape"`             // of an input
	Columns []string `json:"columns,omitempty"` // names of features; none for pictures
	Images  bool     `json:"images"`
	Drawing int      `json:"drawing"` // side of the square that may be drawn; 0 for none
	Dark    bool     `json:"dark"`    // pictures are light on dark

	Train  int          `json:"train"`  // number of training examples
	Tests  int          `json:"tests"`  // number of test rows
	Method string       `json:"method"` // of the posterior
	Refit  bool         `json:"refit"`
	Scale  result.Float `json:"scale"` // by which calibration multiplies the covariance; null without one

	Temperature result.Float   `json:"temperature"`     // factor by which calibration multiplies the outputs of classes
	Shift       []result.Float `json:"shift,omitempty"` // added to the outputs before the temperature

	Warnings result.Warnings `json:"warnings"`

	Orders map[string]string `json:"orders"` // a sentence on each way to predict without some examples
}

func (s *service) model() *model {
	i := &s.info
	m := &model{Schema: "funcgp/serve-model/1", Version: s.version, Model: i.Model, Data: i.Data, Classes: i.Classes, Labels: i.Labels,
		Shape: i.InputShape, Columns: i.Columns, Images: i.Columns == nil, Dark: s.dark,
		Train: i.Examples, Method: i.Method, Refit: i.Refitted, Scale: result.Undefined(), Temperature: result.Undefined(), Warnings: s.warnings, Orders: orders}
	if m.Classes == nil {
		m.Target = s.front.Quantity()
	}
	if side, err := s.drawn(); err == nil {
		m.Drawing = side
	}
	if s.tests != nil {
		m.Tests = s.tests.Len()
	}
	if k := s.front.Calibration(); k != nil {
		m.Scale, m.Temperature, m.Shift = result.Float(k.Scale), result.Float(k.Temperature), result.Floats(k.Shift)
	}
	return m
}

// rows is the answer of /v1/rows: test rows in the order of the file.
type rows struct {
	Schema string            `json:"schema"`
	From   int               `json:"from"`  // position of the first row among all test rows
	Total  int               `json:"total"` // number of all test rows
	Rows   []result.NamedRow `json:"rows"`
}

// rows lists test rows from a position on.
func (s *service) rows(r *http.Request) (any, error) {
	out := &rows{Schema: "funcgp/serve-rows/1", Rows: []result.NamedRow{}}
	count := 24
	query, err := queryOf(r)
	if err != nil {
		return nil, err
	}
	for name, list := range query {
		into := map[string]*int{"from": &out.From, "count": &count}[name]
		n, err := strconv.Atoi(list[0])
		if into == nil || err != nil || n < 0 || len(list) > 1 {
			return nil, refusef(http.StatusBadRequest, "bad_parameter", "%s=%q: give from and count as whole numbers", name, list[0])
		}
		*into = n
	}
	if s.tests == nil {
		return out, nil
	}
	out.Total = s.tests.Len()
	for i := min(out.From, out.Total); i < out.Total && len(out.Rows) < min(count, mostListed); i++ {
		out.Rows = append(out.Rows, s.tests.Named(i))
	}
	return out, nil
}
