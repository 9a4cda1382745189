package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// header is the dictionary at the beginning of the file.
type header struct {
	descr   string
	fortran bool
	shape   []int
}

// readHeader reads all that comes before the elements.
func readHeader(r io.Reader) (*header, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, ended(err)
	}
	if !Is(head[:]) {
		return nil, errors.New("it does not begin as NumPy files do")
	}
	// Since version 2 the length has four bytes; since version 3 the text is UTF-8.
	size := 2
	if head[6] > 1 {
		size = 4
	}
	if head[6] < 1 || head[6] > 3 {
		return nil, fmt.Errorf("it has version %d.%d of the format, and 1 to 3 are read", head[6], head[7])
	}
	length := make([]byte, 4)
	if _, err := io.ReadFull(r, length[:size]); err != nil {
		return nil, ended(err)
	}
	n := binary.LittleEndian.Uint32(length)
	if n > maxHeader {
		return nil, fmt.Errorf("its header of %d bytes is too long", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, ended(err)
	}
	return parseHeader(string(text))
}

// ended replaces an end-of-file error by one that says that the header is incomplete.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("it ends within the header")
	}
	return err
}

// parseHeader reads a Python dictionary such as
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
//
// whose three entries may be in any order.
func parseHeader(text string) (*header, error) {
	p := &parser{rest: text}
	h := &header{}
	seen := map[string]bool{}
	p.take("{")
	for p.err == nil && !p.try("}") {
		key := p.text()
		p.take(":")
		if seen[key] {
			p.fail()
		}
		seen[key] = true
		switch key {
		case "descr":
			if p.peek("[") {
				return nil, errors.New("its elements are records of several fields; save one array for each")
			}
			h.descr = p.text()
		case "fortran_order":
			if h.fortran = p.try("True"); !h.fortran {
				p.take("False")
			}
		case "shape":
			h.shape = p.tuple()
		default:
			p.fail()
		}
		if !p.try(",") && !p.peek("}") {
			p.fail()
		}
	}
	if p.skip(); p.err != nil || p.rest != "" || len(seen) != 3 {
		return nil, fmt.Errorf("its header %.80q cannot be read", text)
	}
	return h, nil
}

// parser reads Python literals; after the first error it reads nothing more.
type parser struct {
	rest string
	err  error
}

func (p *parser) fail() {
	p.err = errors.New("malformed")
	p.rest = ""
}

func (p *parser) skip() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *parser) peek(token string) bool {
	p.skip()
	return strings.HasPrefix(p.rest, token)
}

// try reads a token if it comes next.
func (p *parser) try(token string) bool {
	ok := p.peek(token)
	if ok {
		p.rest = p.rest[len(token):]
	}
	return ok
}

func (p *parser) take(token string) {
	if !p.try(token) {
		p.fail()
	}
}

// text reads a string without escapes.
func (p *parser) text() string {
	p.skip()
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		p.fail()
		return ""
	}
	s, rest, ok := strings.Cut(p.rest[1:], p.rest[:1])
	if !ok || strings.Contains(s, `\`) {
		p.fail()
		return ""
	}
	p.rest = rest
	return s
}

// maxRank bounds the number of dimensions, as NumPy does.
const maxRank = 64

// tuple reads a tuple of nonnegative integers.
func (p *parser) tuple() []int {
	var out []int
	p.take("(")
	for p.err == nil && !p.try(")") {
		p.skip()
		digits := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
		n, err := strconv.Atoi(p.rest[:digits])
		if err != nil || len(out) == maxRank {
			p.fail()
			return nil
		}
		out = append(out, n)
		p.rest = p.rest[digits:]
		p.try("L") // the suffix of integers in Python 2
		if !p.try(",") && !p.peek(")") {
			p.fail()
		}
	}
	return out
}
