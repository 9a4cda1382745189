package serve

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// policy is the Content-Security-Policy of the server's page. It allows the page's own script,
// style and pictures, from this server or as data URLs, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guarded wraps the handler of the paths: it sets headers, checks where a request comes from,
// counts requests, and answers requests whose handler panics.
func (s *Server) guarded(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		began, w := time.Now(), &recorder{ResponseWriter: rw}
		r = r.WithContext(r.Context())
		r.Pattern = "" // the pattern of an outer ServeMux
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		defer func() {
			if v := recover(); v != nil {
				// Answer a request whose handler panicked.
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				s.counts.panics.Add(1)
				if s.options.Failed != nil {
					s.options.Failed(fmt.Sprintf("%s %s: %v\n%s", r.Method, r.URL.Path, v, debug.Stack()))
				}
				if w.status == 0 {
					s.refuse(w, refusef(http.StatusInternalServerError, "bug", "this is a bug of gpexplain, which its log describes"))
				}
			}
			s.counts.add(routeOf(r), w.status, time.Since(began))
		}()
		switch {
		case !s.knows(r.Host):
			s.refuse(w, refusef(http.StatusMisdirectedRequest, "unknown_host", "this server does not go by the name %q; ask for localhost or its address, or start it with {host}", r.Host))
		case origin.Check(r) != nil || !sameScheme(r):
			s.refuse(w, refusef(http.StatusForbidden, "cross_origin", "the request comes from a page of another site; open the page of this server, or send no Origin"))
		case s.options.Token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.options.Token)) == 0:
			h.Set("WWW-Authenticate", "Bearer")
			s.refuse(w, refusef(http.StatusUnauthorized, "no_token", "the request lacks the token of this server; send Authorization: Bearer and the token"))
		case r.URL.Path != path.Clean(r.URL.Path):
			s.refuse(w, notFound(r))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameScheme tells whether the page that sends the request was loaded by the scheme (HTTP or HTTPS)
// of the request. If the browser sends Sec-Fetch-Site, its judgement counts instead, since a proxy
// in front of the server may change the scheme. Browsers send it unless page and server both use
// plain HTTP.
func sameScheme(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin == "" || r.Header.Get("Sec-Fetch-Site") != "" || strings.HasPrefix(origin, "https:") == (r.TLS != nil)
}

// hostForm is a host with or without a port; an IPv6 address is in brackets.
var hostForm = regexp.MustCompile(`^(?:\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]|([^\[\]:]+))(?::([0-9]{1,5}))?$`)

// knows tells whether a Host header is allowed: an IP address, localhost, or a name in
// Options.Hosts. So a page of another site whose own host name resolves to this server cannot read
// answers.
func (s *Server) knows(hostport string) bool {
	m := hostForm.FindStringSubmatch(hostport)
	if m == nil {
		return false
	}
	if port, err := strconv.ParseUint(m[3], 10, 16); m[3] != "" && (err != nil || port == 0) {
		return false
	}
	host := m[1] + m[2]
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || slices.ContainsFunc(s.options.Hosts, func(name string) bool { return name == "*" || strings.EqualFold(host, name) })
}

// A recorder is a ResponseWriter that remembers the status of the answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap returns what http.ResponseController needs.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
