package testenv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
)

// reader reads one whole request.
type reader func(r *bufio.Reader) ([]byte, error)

// protocol tells by the first byte how a client speaks.
func protocol(r *bufio.Reader) (reader, error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	switch first[0] {
	case '*':
		return readCommand, nil
	case 0: // the high byte of the length of a start-up message
		session := &postgresSession{}
		return session.read, nil
	default:
		return readPiece, nil
	}
}

// readPiece takes what is there.
func readPiece(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, int64(r.Buffered())))
}

// longest bounds a request: what claims to be longer is a mistake in reading.
const longest = 256 << 20

var errTooLong = errors.New("the request is too long to be one")

// readCommand reads one command of Redis: an array of strings.
func readCommand(r *bufio.Reader) ([]byte, error) {
	var out bytes.Buffer
	words, err := readLength(r, &out, '*')
	if err != nil {
		return nil, err
	}
	for range words {
		size, err := readLength(r, &out, '$')
		if err != nil {
			return nil, err
		}
		if _, err = io.CopyN(&out, r, size+int64(len("\r\n"))); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func readLength(r *bufio.Reader, out *bytes.Buffer, kind byte) (int64, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	out.WriteString(line)
	if line[0] != kind {
		return 0, errors.New("this is no command of Redis: " + strconv.Quote(line))
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
	if err == nil && (n < 0 || n > longest) {
		err = errTooLong
	}
	return n, err
}

// postgresSession reads the messages of a PostgreSQL client.
type postgresSession struct {
	started bool
}

// Codes of messages that come before the start-up message and have its form.
const (
	cancelCode     = 80877102
	tlsCode        = 80877103
	encryptionCode = 80877104
)

// read returns what a client sends before it waits for an answer: messages up to
// one that asks for it.
func (s *postgresSession) read(r *bufio.Reader) ([]byte, error) {
	var out bytes.Buffer
	if !s.started {
		code, err := readMessage(r, &out)
		s.started = code != cancelCode && code != tlsCode && code != encryptionCode
		return out.Bytes(), err
	}
	for {
		kind, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		out.WriteByte(kind)
		if _, err := readMessage(r, &out); err != nil {
			return nil, err
		}
		// Parse, Bind, Describe, Execute and Close are answered after a later Sync
		// or Flush only.
		if !bytes.ContainsRune([]byte("PBDEC"), rune(kind)) {
			return out.Bytes(), nil
		}
	}
}

// readMessage reads a length and what it is the length of, and returns the first
// four bytes of that, which are a code in messages without a type.
func readMessage(r *bufio.Reader, out *bytes.Buffer) (uint32, error) {
	const width = 4
	head := make([]byte, width)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, err
	}
	out.Write(head)
	size := int64(binary.BigEndian.Uint32(head))
	if size < width || size > longest {
		return 0, errTooLong
	}
	body := out.Len()
	if _, err := io.CopyN(out, r, size-width); err != nil {
		return 0, err
	}
	if out.Len()-body < width {
		return 0, nil
	}
	return binary.BigEndian.Uint32(out.Bytes()[body:]), nil
}
