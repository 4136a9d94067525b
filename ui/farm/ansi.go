package farm

import (
	"strings"
	"unicode/utf8"
)

// A span is a text of one look.
type span struct{ text, class string }

const maxSpans = 500 // of a line; what comes after has no colours

// spans takes a line of output apart by its colours. Escape sequences do nothing but
// that: all others, and what else does not print, are left out.
func spans(line string) (list []span) {
	var out strings.Builder
	class := ""
	flush := func() {
		if out.Len() > 0 {
			list = append(list, span{out.String(), class})
			out.Reset()
		}
	}
	line = overwritten(line)
	for len(line) > 0 {
		r, size := utf8.DecodeRuneInString(line)
		switch {
		case r == '\x1b':
			codes, sgr, rest := escape(line)
			line = rest
			if sgr && len(list) < maxSpans {
				flush()
				class = styled(class, codes)
			}
			continue
		case r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r >= 0xa0):
			out.WriteString(line[:size])
		}
		line = line[size:]
	}
	flush()
	return list
}

// overwritten returns what a terminal would show of a line in which a program went back
// to its beginning, as a progress bar does: the last.
func overwritten(line string) string {
	line = strings.TrimRight(line, "\r")
	return line[strings.LastIndexByte(line, '\r')+1:]
}

// escape takes an escape sequence off the beginning of a text. sgr tells whether it says
// how what follows looks.
func escape(text string) (codes string, sgr bool, rest string) {
	if len(text) < 2 {
		return "", false, ""
	}
	switch text[1] {
	case '[': // up to a letter
		for i := 2; i < len(text); i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return text[2:i], text[i] == 'm', text[i+1:]
			}
		}
		return "", false, ""
	case ']', 'P', '_', '^', 'X': // up to BEL or ESC \
		for i := 2; i < len(text); i++ {
			if text[i] == '\a' {
				return "", false, text[i+1:]
			}
			if text[i] == '\x1b' && i+1 < len(text) && text[i+1] == '\\' {
				return "", false, text[i+2:]
			}
		}
		return "", false, ""
	}
	_, size := utf8.DecodeRuneInString(text[1:])
	return "", false, text[1+size:]
}

// styled returns the class after some codes.
func styled(class, codes string) string {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case "", "0", "39", "22":
			class = ""
		case "1":
			class = "bold"
		case "2", "90", "37":
			class = "dim"
		case "31", "91":
			class = "red"
		case "32", "92":
			class = "green"
		case "33", "93":
			class = "yellow"
		case "34", "94", "36", "96", "35", "95":
			class = "blue"
		case "38", "48": // of a palette: two or four more
			if i+1 < len(list) && list[i+1] == "2" {
				i += 3
			}
			i += 2
		}
	}
	return class
}
