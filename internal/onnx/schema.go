package onnx

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// A codec reads and writes one field of a message.
type codec struct {
	num    number
	decode func(f *field) error
	encode func(b []byte) ([]byte, error)
}

// A schema lists the fields of a message in the order in which they are written. Both directions follow it.
type schema []codec

// others is the number of the codec that keeps the fields that a schema does not list.
const others number = 0

// field decodes one field. A field that is not listed goes to the codec others, or is skipped without one.
func (s schema) field(f *field) error {
	for _, c := range s {
		if c.num == f.num || c.num == others {
			return c.decode(f)
		}
	}
	return nil
}

// message decodes the message in a field.
func (s schema) message(f *field) error {
	body, err := f.message()
	if err != nil {
		return err
	}
	return body.each(s.field)
}

// append appends all fields.
func (s schema) append(b []byte) (_ []byte, err error) {
	for _, c := range s {
		if b, err = c.encode(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// A record is a message whose fields a schema lists.
type record interface{ schema() schema }

// Records that do more than follow their schema.
type (
	// A checker refuses a record that lacks something, as decoded at an offset or, with offset −1, to be encoded.
	checker interface{ check(off int) error }
	// A decoder decodes the message itself.
	decoder interface{ decode(m message) error }
	// An appender encodes the message itself.
	appender interface {
		append(b []byte) ([]byte, error)
	}
)

// decodeRecord decodes the message in a field.
func decodeRecord(r record, f *field) error {
	body, err := f.message()
	if err != nil {
		return err
	}
	if _, ok := r.(*Graph); ok {
		if body.depth++; body.depth > MaxDepth {
			return faultf(f.off, "more than %d graphs inside one another", MaxDepth)
		}
	}
	if d, ok := r.(decoder); ok {
		err = d.decode(body)
	} else {
		err = body.each(r.schema().field)
	}
	if c, ok := r.(checker); ok && err == nil {
		err = c.check(f.off)
	}
	return err
}

// encodeRecord appends field num, whose value is the message r.
func encodeRecord(b []byte, num number, r record) ([]byte, error) {
	if c, ok := r.(checker); ok {
		if err := c.check(-1); err != nil {
			return nil, err
		}
	}
	if a, ok := r.(appender); ok {
		return appendMessage(b, num, a.append)
	}
	return appendMessage(b, num, r.schema().append)
}

// place names entry i of a list of records, or "" where kind is "".
func place(kind string, i int, r record) string {
	switch r := r.(type) {
	case *Node:
		return r.label(i)
	case *Attribute:
		return label(kind, i, r.Name)
	case *Tensor:
		return label(kind, i, r.Name)
	case *ValueInfo:
		return label(kind, i, r.Name)
	case *Function:
		return label(kind, i, r.Name)
	}
	return label(kind, i, "")
}

// records is a list of messages; of returns the record that an entry holds. Errors name the entry by its kind.
func records[E any](num number, kind string, list *[]E, of func(e *E) record) codec {
	return codec{num, func(f *field) error {
		var e E
		r := of(&e)
		if err := decodeRecord(r, f); err != nil {
			return in(place(kind, len(*list), r), err)
		}
		*list = append(*list, e)
		return nil
	}, func(b []byte) (_ []byte, err error) {
		for i := range *list {
			r := of(&(*list)[i])
			if b, err = encodeRecord(b, num, r); err != nil {
				return nil, in(place(kind, i, r), err)
			}
		}
		return b, nil
	}}
}

// made is the record of an entry that is a pointer, which is made if it is nil.
func made[T any, P interface {
	*T
	record
}](e *P) record {
	if *e == nil {
		*e = new(T)
	}
	return *e
}

// only is a message that occurs once or not at all; kind names it.
func only[T any, P interface {
	*T
	record
}](num number, kind string, dst *P) codec {
	at := func() string {
		if t, ok := record(*dst).(*Tensor); ok {
			return t.label()
		}
		return kind
	}
	return codec{num, func(f *field) error {
		if *dst != nil {
			return in(at(), faultf(f.off, "a second %s", kind))
		}
		*dst = new(T)
		err := decodeRecord(*dst, f)
		return in(at(), err)
	}, func(b []byte) ([]byte, error) {
		if *dst == nil {
			return b, nil
		}
		b, err := encodeRecord(b, num, *dst)
		return b, in(at(), err)
	}}
}

// text is a string, not written if it is empty.
func text(num number, s *string) codec {
	return codec{num, func(f *field) error {
		*s = string(f.b)
		return f.want(protowire.BytesType)
	}, func(b []byte) ([]byte, error) { return appendString(b, num, *s), nil }}
}

// texts is a list of strings, or of bytes.
func texts[T ~string | ~[]byte](num number, list *[]T) codec {
	return codec{num, func(f *field) error {
		*list = append(*list, T(f.copyBytes()))
		return f.want(protowire.BytesType)
	}, func(b []byte) ([]byte, error) {
		for _, s := range *list {
			b = appendBytes(b, num, s)
		}
		return b, nil
	}}
}

// integer is an integer. Unless it is expected, it is not written if it is zero.
func integer[T ~int32 | ~int64](num number, v *T, expected bool) codec {
	return codec{num, func(f *field) error {
		*v = T(f.u)
		return f.want(protowire.VarintType)
	}, func(b []byte) ([]byte, error) {
		if *v == 0 && !expected {
			return b, nil
		}
		return appendInt(b, num, int64(*v)), nil
	}}
}

// integers is a list of integers, packed or not.
func integers(num number, list *[]int64) codec {
	return codec{num, func(f *field) error { return f.int64s(list) },
		func(b []byte) ([]byte, error) { return appendInts(b, num, *list), nil }}
}

// float is a float32. Unless it is expected, it is not written if it is zero.
func float(num number, v *float32, expected bool) codec {
	return codec{num, func(f *field) error {
		*v = math.Float32frombits(uint32(f.u))
		return f.want(protowire.Fixed32Type)
	}, func(b []byte) ([]byte, error) {
		if *v == 0 && !expected {
			return b, nil
		}
		return appendFloat(b, num, *v), nil
	}}
}

// rest keeps the fields that the schema does not list as bytes of the file. It comes last.
func rest(dst *[]byte) codec {
	return codec{others, func(f *field) error { return f.keep(dst) },
		func(b []byte) ([]byte, error) { return append(b, *dst...), nil }}
}
