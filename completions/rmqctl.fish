# Completion of rmqctl in fish. Made by `rmqctl completion fish`.
function __rmqctl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] complete-words $words[2..-1] 2>/dev/null)
    if test "$found[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else if set -q found[1]
        printf '%s\n' $found
    end
end
complete -c rmqctl -f -a '(__rmqctl_complete)'
