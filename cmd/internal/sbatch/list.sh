# expand prints the names of a node list, one per line: n[01-03,7],gpu04.
expand() {
  part='' inside=0 rest=$1,
  while [ -n "$rest" ]; do
    sign=${rest%"${rest#?}"} rest=${rest#?}
    case $sign in
    '[') inside=1 ;;
    ']') inside=0 ;;
    ,) [ "$inside" = 1 ] || { [ -z "$part" ] || spread "$part"; part='' && continue; } ;;
    esac
    part=$part$sign
  done
  [ "$inside" = 0 ] || return 1
}
spread() { # one name, which may have one bracket
  case $1 in
  *\[*\]*) ;;
  *) echo "$1" && return ;;
  esac
  before=${1%%\[*} after=${1#*\]} spans=${1#*\[} spans=${spans%%\]*},
  while [ -n "$spans" ]; do
    span=${spans%%,*} spans=${spans#*,}
    case $span in '' | *[!0-9-]* | -* | *- | *-*-*) return 1 ;; esac
    from=${span%-*} to=${span#*-} width=${#from}
    from=$(bare "$from") to=$(bare "$to")
    while [ "$from" -le "$to" ]; do
      printf "%s%0${width}d%s\n" "$before" "$from" "$after"
      from=$((from + 1))
    done
  done
}
bare() { echo "$1" | sed 's/^0*\([0-9]\)/\1/'; } # a number without zeros before it
